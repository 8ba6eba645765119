import { expect } from 'chai';
import fc from 'fast-check';
import type { Next } from '../../../../src/deliveries/claims.ts';
import { createDueAttempts } from '../../../../src/deliveries/due-reads.ts';
import {
  type Claim,
  createDeliveryModel,
  type DeliveryDocument,
  type DeliveryModel,
} from '../../../../src/deliveries/model.ts';
import { freshDatabase } from '../../../support/mongo.ts';
import { claimsOf as claimsAt } from '../../claims-of.ts';
import { pendingDelivery } from '../pending-delivery.ts';

const maxAttempts = 3;
const ok = { durationMs: 1, status: 200, response: '' };
const failure = { durationMs: 1, status: 500, code: 'http_500' as const, response: '' };
const key = (deliveryId: string, attempt = 1) => ({ deliveryId, attempt });

function delivery(_id: string, more: Partial<DeliveryDocument> = {}): DeliveryDocument {
  return { ...pendingDelivery(_id), maxAttempts, ...more };
}

describe('Claims', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let deliveries: DeliveryModel;
  const claimsOf = (owner: string, lease?: number, given: Parameters<typeof claimsAt>[3] = {}) =>
    claimsAt(deliveries, owner, lease, given);

  before(async () => {
    database = await freshDatabase();
    deliveries = createDeliveryModel(database.connection, 'gateway_');
    await deliveries.createIndexes();
  });
  beforeEach(async () => {
    await deliveries.deleteMany({});
  });
  after(() => database.drop());

  it('are given to one of many workers that ask at the same moment', async () => {
    await deliveries.create(delivery('dlv_1'));
    const workers = Array.from({ length: 20 }, (_, i) => claimsOf(`worker ${i}`));
    const claims = await Promise.all(workers.map((worker) => worker.claim(key('dlv_1'))));

    expect(claims.filter((claim) => claim !== null)).to.have.length(1);
  });

  it('are not given before the attempt is due, nor for another attempt', async () => {
    const later = new Date(Date.now() + 60_000);
    await deliveries.create([delivery('dlv_1', { dueAt: later, claimableAt: later }), delivery('dlv_2')]);
    const claims = claimsOf('worker');

    expect(await claims.claim(key('dlv_1'))).to.equal(null);
    expect(await claims.claim(key('dlv_2', 2))).to.equal(null);
    const stored = await deliveries.find().sort({ _id: 1 }).lean();
    expect(stored.map(({ starts, lease }) => [starts, lease])).to.deep.equal([
      [0, null],
      [0, null],
    ]);
    expect(stored[0]?.claimableAt).to.deep.equal(later);
  });

  it('lapse unless they are renewed, and the attempt keeps its number', async () => {
    await deliveries.create([delivery('dlv_1'), delivery('dlv_2')]);
    const dying = claimsOf('dying', 3_000, { renewInterval: 500 });
    const abandoned = await dying.claim(key('dlv_1'));
    if (!abandoned) throw new Error('it was not claimed');
    dying.drop(abandoned);
    const renewed = await dying.claim(key('dlv_2'));
    // longer than the lease
    await new Promise((resolve) => setTimeout(resolve, 3_100));
    const other = claimsOf('other');
    const taken = await other.claim(key('dlv_1'));

    expect(taken?.delivery.starts).to.equal(2);
    expect(await other.claim(key('dlv_2'))).to.equal(null);
    expect(renewed && dying.maySend(renewed)).to.equal(true);
    expect(await dying.record(abandoned, failure, { state: 'failed' })).to.equal('lost');
    expect(taken && (await other.record(taken, ok, { state: 'delivered' }))).to.equal('recorded');
    if (renewed) dying.drop(renewed);
  });

  it('make the next attempt due exactly its delay after the finish, by the clock of the database', async () => {
    await deliveries.create(delivery('dlv_1'));
    const claims = claimsOf('worker');
    const claim = await claims.claim(key('dlv_1'));
    // a timer may fire a millisecond early, and the database's clock counts whole ones
    await new Promise((resolve) => setTimeout(resolve, 53));
    if (claim) await claims.record(claim, failure, { retryIn: 60_000 });
    const found = await deliveries.findById('dlv_1').lean();

    expect(found).to.deep.include({ state: 'pending', attempt: 2, starts: 0, lease: null });
    expect(found?.dueAt).to.deep.equal(found?.claimableAt);
    expect(Number(found?.dueAt) - Number(found?.attempts[0]?.startedAt)).to.be.within(60_050, 70_000);
  });

  it('made in one write share a token, and each record their own outcome', async () => {
    await deliveries.create([delivery('dlv_1'), delivery('dlv_2', { attempt: 2 }), delivery('dlv_3')]);
    const claims = claimsOf('worker');
    const taken = await Promise.all([
      claims.claim(key('dlv_1')),
      claims.claim(key('dlv_2', 2)),
      claims.claim(key('dlv_3')),
    ]);
    expect(new Set(taken.map((claim) => claim?.token)).size).to.equal(1);
    const finished = taken.map((claim, i) => {
      const next = i === 2 ? ({ retryIn: 60_000 } as const) : ({ state: 'delivered' } as const);
      return claim && claims.record(claim, { durationMs: 10 + i, response: `answer ${i}` }, next);
    });
    expect(await Promise.all(finished)).to.deep.equal(['recorded', 'recorded', 'recorded']);

    const stored = await deliveries.find().sort({ _id: 1 }).lean();
    const told = stored.map(({ state, attempts }) => [state, ...attempts.map((one) => [one.number, one.response])]);
    expect(told).to.deep.equal([
      ['delivered', [1, 'answer 0']],
      ['delivered', [2, 'answer 1']],
      ['pending', [1, 'answer 2']],
    ]);
  });

  it('that were lost change nothing, even under a token shared with a valid claim', async () => {
    await deliveries.create([delivery('dlv_1'), delivery('dlv_2')]);
    const claims = claimsOf('worker', 3_000);
    const lost = await claims.claim(key('dlv_1'));
    // longer than the lease
    await new Promise((resolve) => setTimeout(resolve, 3_100));
    const lasting = claimsOf('worker');
    const [again, other] = await Promise.all([lasting.claim(key('dlv_1')), lasting.claim(key('dlv_2'))]);
    if (!lost || !again || !other) throw new Error('they should all have been claimed');
    const failed = { state: 'failed' } as const;
    const outcomes = [lost, other].map((claim) => lasting.record(claim, failure, failed));

    expect(await Promise.all(outcomes)).to.deep.equal(['lost', 'recorded']);
    const held = await deliveries.findById('dlv_1').lean();
    expect([held?.state, held?.attempts, held?.lease?.token]).to.deep.equal(['pending', [], again.token]);
  });

  type Step = {
    readonly kind: 'claim' | 'deliver' | 'fail' | 'release' | 'crash' | 'cancel' | 'lapse';
    worker: number;
    target: number;
  };
  const steps = fc.array(
    fc.record<Step>({
      kind: fc.constantFrom(
        'claim',
        'claim',
        'claim',
        'deliver',
        'fail',
        'fail',
        'release',
        'crash',
        'cancel',
        'lapse',
        'lapse',
      ),
      worker: fc.nat(2),
      target: fc.nat(1),
    }),
    { minLength: 5, maxLength: 40 },
  );

  it('match a simple model for any order of worker steps and crashes', async () => {
    await fc.assert(fc.asyncProperty(steps, behavesLikeTheModel), { numRuns: 40 });
  });

  /** What one delivery should be; `holder` is whose token the database has, `claimable` whether it may be taken. */
  interface Model {
    state: string;
    attempt: number;
    starts: number;
    holder: number | null;
    claimable: boolean;
    made: { readonly number: number; readonly ok: boolean }[];
  }

  async function behavesLikeTheModel(script: readonly Step[]): Promise<void> {
    const ids = ['dlv_a', 'dlv_b'];
    await deliveries.deleteMany({});
    await deliveries.insertMany(ids.map((id) => delivery(id)));
    const models: Model[] = ids.map(() => ({
      state: 'pending',
      attempt: 1,
      starts: 0,
      holder: null,
      claimable: true,
      made: [],
    }));
    /** What the workers have told of deliveries that ended. */
    const ended: string[] = [];
    const onEnded = (state: string) => void ended.push(state);
    const workers = [0, 1, 2].map((n) => claimsOf(`worker ${n}`, undefined, { onEnded }));
    /** The claims a worker believes to have, by target; `serial` tells whether it is the one the model knows. */
    const believed = workers.map(() => new Map<number, { claim: Claim; serial: number }>());
    let serial = 0;

    for (const { kind, worker, target } of script) {
      const claims = workers[worker];
      const model = models[target];
      const id = ids[target];
      const mine = believed[worker];
      if (!claims || !model || !id || !mine) throw new Error('out of range');
      const held = mine.get(target);
      const valid = held !== undefined && model.holder === held.serial && model.state === 'pending';

      if (kind === 'claim') {
        const claim = await claims.claim(key(id, model.attempt));
        expect(claim !== null).to.equal(model.state === 'pending' && model.claimable);
        if (!claim) continue;
        serial += 1;
        mine.set(target, { claim, serial });
        Object.assign(model, { holder: serial, claimable: false, starts: model.starts + 1 });
        expect(claim.delivery.starts).to.equal(model.starts);
      } else if (kind === 'lapse') {
        // time passes: a due time comes, or a lease runs out
        await deliveries.updateOne({ _id: id, state: 'pending' }, { claimableAt: new Date(Date.now() - 1_000) });
        model.claimable = model.state === 'pending';
      } else if (kind === 'crash') {
        mine.clear();
      } else if (held) {
        mine.delete(target);
        const told = await finishing(kind, held.claim, claims, model, valid);
        claims.drop(held.claim);
        expect(ended.splice(0), 'what is told').to.deep.equal(told);
      }
      await compare(id, model);
    }
    const refs = await createDueAttempts(deliveries).ofWebhooks(new Map([['wh_1', 10]]));
    expect(refs.map(({ deliveryId }) => deliveryId).sort()).to.deep.equal(
      ids.filter((_, i) => models[i]?.state === 'pending' && models[i]?.claimable),
    );
  }

  /** Resolves with the ends that are to be told. */
  async function finishing(
    kind: Step['kind'],
    claim: Claim,
    claims: ReturnType<typeof claimsOf>,
    model: Model,
    valid: boolean,
  ): Promise<string[]> {
    if (kind === 'release') {
      await claims.giveBack(claim, 60_000);
      if (valid) Object.assign(model, { holder: null, claimable: false, starts: model.starts - 1 });
      return [];
    }
    if (kind === 'cancel') {
      await claims.cancel(claim, 'webhook_deleted');
      if (valid) Object.assign(model, { state: 'canceled', holder: null, claimable: false, starts: 0 });
      return valid ? ['canceled'] : [];
    }
    const { attempt: number } = claim.delivery;
    const isOk = kind === 'deliver';
    const isLast = number === maxAttempts;
    const next: Next = isOk ? { state: 'delivered' } : isLast ? { state: 'failed' } : { retryIn: 60_000 };
    const recorded = await claims.record(claim, isOk ? ok : failure, next);
    const counts = valid || (isOk && !model.made.some((made) => made.number === number && made.ok));
    expect(recorded).to.equal(valid ? 'recorded' : counts ? 'late' : 'lost');
    if (!counts) return [];
    const others = model.made.filter((made) => made.number !== number);
    model.made = [...others, { number, ok: isOk }].sort((a, b) => a.number - b.number);
    if (!valid && model.state === 'pending') model.attempt = number;
    Object.assign(model, { holder: null, claimable: false, starts: 0 });
    if ('state' in next) model.state = next.state;
    else model.attempt += 1;
    return 'state' in next ? [next.state] : [];
  }

  async function compare(id: string, model: Model): Promise<void> {
    const found = await deliveries.findById(id).lean();
    expect({
      state: found?.state,
      attempt: found?.attempt,
      starts: found?.starts,
      leased: found?.lease !== null,
      made: found?.attempts.map(({ number, code }) => ({ number, ok: code === undefined })),
    }).to.deep.equal({
      state: model.state,
      attempt: model.attempt,
      starts: model.starts,
      leased: model.holder !== null,
      made: model.made,
    });
    expect(found?.claimableAt === undefined).to.equal(model.state !== 'pending');
    expect(found?.expiresAt === undefined, 'nothing pending ever expires').to.equal(model.state === 'pending');
  }
});
