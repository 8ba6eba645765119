import { expect } from 'chai';
import type { Schemas } from '../../../src/cli/client/api.ts';
import { follow } from '../../../src/cli/commands/deliveries-tail.ts';

type Summary = Schemas['DeliverySummary'];

const start = Date.parse('2026-01-31T12:00:00Z');
const iso = (ms: number) => new Date(start + ms).toISOString();

/** Deliveries as a gateway would list them. */
class Ledger {
  readonly stored: Summary[] = [];
  lookedAt: string[] = [];
  /** What happens after each read. */
  afterRead = () => {};
  now = start;

  put(id: string, at: number, fields: Partial<Summary> = {}): void {
    const known = this.stored.findIndex((delivery) => delivery.id === id);
    if (known >= 0) this.stored.splice(known, 1);
    const base = { id, event_id: 'evt_1', webhook_id: 'wh_1', type: 'credits.low', test: false, state: 'pending' };
    const attempts = { reason: null, attempts_made: 0, max_attempts: 6, next_attempt_at: iso(at), in_flight: false };
    const rest = { last_status: null, last_code: null, created_at: iso(at), ended_at: null };
    this.stored.push({ ...base, ...attempts, ...rest, ...fields } as Summary);
    this.stored.sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  follow(past = 10, since?: string) {
    return follow({
      past,
      since,
      now: () => this.now,
      list: async ({ limit, after, since: bound = '' }) => {
        const rows = this.stored.filter((row) => row.created_at >= bound && (after === undefined || row.id < after));
        const page = { data: rows.slice(0, limit), has_more: rows.length > limit };
        this.afterRead();
        return page;
      },
      get: async (id) => {
        this.lookedAt.push(id);
        const summary = this.stored.find((delivery) => delivery.id === id) as Summary;
        return { ...summary, url: null, body: '{}', attempts: [], schedule: [] };
      },
    });
  }
}

describe('following deliveries', () => {
  const ids = (changes: readonly Summary[]) => changes.map(({ id }) => id);
  let ledger: Ledger;
  beforeEach(() => {
    ledger = new Ledger();
  });

  it('begins with the newest deliveries, oldest first', async () => {
    for (let i = 0; i < 5; i += 1) ledger.put(`dlv_${i}`, i);
    expect(ids(await ledger.follow(2).changes())).to.deep.equal(['dlv_3', 'dlv_4']);
  });

  for (const past of [0, 2, 10]) {
    it(`misses none that is made while it begins, with ${past} past ones shown`, async () => {
      for (let i = 10; i < 15; i += 1) ledger.put(`dlv_${i}`, i);
      let made = 15;
      ledger.afterRead = () => {
        ledger.put(`dlv_${made}`, made);
        made += 1;
      };
      const deliveries = ledger.follow(past);
      const told = ids(await deliveries.changes());
      ledger.afterRead = () => {};
      told.push(...ids(await deliveries.changes()));
      const all = ledger.stored.map(({ id }) => id).reverse();
      expect(told).to.deep.equal(all.slice(-told.length));
      // no more of the past than were asked for
      expect(told.length - (made - 15)).to.be.at.most(past);
      expect(told).to.include.members(['dlv_16', `dlv_${made - 1}`]);
    });
  }

  it('reports each delivery and each change once', async () => {
    ledger.put('dlv_1', 0);
    const deliveries = ledger.follow(1);
    await deliveries.changes();
    expect(await deliveries.changes()).to.deep.equal([]);
    ledger.put('dlv_2', 1_000);
    ledger.put('dlv_1', 0, { state: 'delivered', attempts_made: 1, last_status: 200 });
    const changes = await deliveries.changes();
    expect(ids(changes)).to.deep.equal(['dlv_1', 'dlv_2']);
    expect(changes[0]).to.include({ state: 'delivered' });
    expect(await deliveries.changes()).to.deep.equal([]);
  });

  it('does not report older deliveries as new', async () => {
    for (let i = 0; i < 5; i += 1) ledger.put(`dlv_${i}`, i);
    const deliveries = ledger.follow(2);
    await deliveries.changes();
    expect(await deliveries.changes()).to.deep.equal([]);
  });

  it('finds a delivery that appears after one created later', async () => {
    ledger.put('dlv_5', 5_000);
    const deliveries = ledger.follow();
    await deliveries.changes();
    ledger.put('dlv_3', 3_000);
    expect(ids(await deliveries.changes())).to.deep.equal(['dlv_3']);
  });

  it('checks an old delivery when its next attempt is due, and not before', async () => {
    ledger.put('dlv_1', 0, { next_attempt_at: iso(60_000), attempts_made: 1, last_code: 'http_500', last_status: 500 });
    ledger.put('dlv_2', 30_000, { state: 'delivered' });
    const deliveries = ledger.follow();
    await deliveries.changes();
    await deliveries.changes();
    expect(ledger.lookedAt).to.deep.equal([]);
    ledger.now = start + 60_000;
    ledger.put('dlv_1', 0, { state: 'delivered', attempts_made: 2, last_status: 200 });
    const [change, ...none] = await deliveries.changes();
    expect(none).to.deep.equal([]);
    expect(change).to.include({ id: 'dlv_1', state: 'delivered' }).and.not.have.any.keys('attempts', 'body', 'url');
    await deliveries.changes();
    expect(ledger.lookedAt).to.deep.equal(['dlv_1']);
  });

  it('reads more than one page of new deliveries', async () => {
    ledger.put('dlv_0000', 0);
    const deliveries = ledger.follow();
    await deliveries.changes();
    for (let i = 1; i <= 250; i += 1) ledger.put(`dlv_${String(i).padStart(4, '0')}`, i);
    const changes = ids(await deliveries.changes());
    expect(changes).to.have.length(250);
    expect(changes).to.deep.equal([...changes].sort());
  });

  it('begins empty when there are no deliveries', async () => {
    const deliveries = ledger.follow();
    expect(await deliveries.changes()).to.deep.equal([]);
    ledger.put('dlv_1', 0);
    expect(ids(await deliveries.changes())).to.deep.equal(['dlv_1']);
  });

  it('never reports deliveries created before the given time', async () => {
    ledger.put('dlv_1', 0);
    ledger.put('dlv_2', 8_000);
    const deliveries = ledger.follow(10, iso(5_000));
    expect(ids(await deliveries.changes())).to.deep.equal(['dlv_2']);
    expect(await deliveries.changes()).to.deep.equal([]);
  });
});
