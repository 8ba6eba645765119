import { expect } from 'chai';
import { createFakeEdge, fakeOperations } from '../../http/fake-edge.ts';
import { startGateway } from '../../support/gateway.ts';
import { type Listening, listen } from '../../support/listen.ts';
import { until } from '../../support/until.ts';

/** https://owasp.org/API-Security/editions/2023/en/0xa4-unrestricted-resource-consumption/ */
describe('a burst of reads of one account', () => {
  const count = 60;
  let server: Listening;
  /** Reads under way, by account, and how each is let go on. */
  const underWay: { readonly userId: string; readonly goOn: () => void }[] = [];
  let begun = 0;
  /** Requests that were answered, or whose clients have left. */
  let ended = 0;

  before(async () => {
    const listEvents = {
      async handle({ principal: { userId } }: { principal: { userId: string } }) {
        begun += 1;
        await new Promise<void>((resolve) => underWay.push({ userId, goOn: resolve }));
        return { status: 200, body: { data: [] } };
      },
    };
    const edge = await createFakeEdge({
      operations: fakeOperations({ listEvents }),
      authenticate: (req) => ({ userId: String(req.headers.authorization).replace('Bearer ', '') }),
    });
    server = await listen((req, res) => {
      res.on('close', () => {
        ended += 1;
      });
      edge(req, res, () => res.end());
    });
  });
  beforeEach(() => {
    begun = 0;
    ended = 0;
  });
  after(() => server.close());

  const read = (userId: string, path = '/v1/events', signal?: AbortSignal) =>
    fetch(server.url + path, { headers: { authorization: `Bearer ${userId}` }, ...(signal && { signal }) });
  async function letAllGoOn(answers: readonly Promise<Response>[]): Promise<number[]> {
    const timer = setInterval(() => {
      for (const { goOn } of underWay.splice(0)) goOn();
    }, 1);
    const statuses = await Promise.all(answers.map(async (answer) => (await answer).status));
    clearInterval(timer);
    return statuses;
  }

  it('is served eight at a time, leaves the database free for other accounts, and is answered in full', async () => {
    const burst = Array.from({ length: count }, () => read('usr_1'));
    await until(() => underWay.length >= 8);
    // these have come when one that was sent after them is answered
    expect((await read('usr_1', '/v1/models')).status).to.equal(200);
    const other = read('usr_2');
    await until(() => underWay.some(({ userId }) => userId === 'usr_2'));

    expect(underWay.map(({ userId }) => userId)).to.deep.equal([...Array(8).fill('usr_1'), 'usr_2']);
    expect(await letAllGoOn([...burst, other])).to.deep.equal(Array(count + 1).fill(200));
  });

  it('causes no work for reads whose clients have disconnected before their turn', async () => {
    const leaving = new AbortController();
    const held = Array.from({ length: 8 }, () => read('usr_1'));
    await until(() => underWay.length === 8);
    const left = Array.from({ length: count }, () => read('usr_1', '/v1/events', leaving.signal).catch(() => {}));
    expect((await read('usr_1', '/v1/models')).status).to.equal(200);
    leaving.abort();
    await Promise.all(left);
    await until(() => ended > count);

    const next = read('usr_1');
    await letAllGoOn([...held, next]);
    expect(begun).to.equal(9);
  });
});

describe('the option limits.readsPerMinute', () => {
  it('limits the reads of an account in a minute, but neither its writes nor other accounts', async () => {
    const live = await startGateway({ limits: { readsPerMinute: 3 } });
    try {
      for (const path of ['/v1/events', '/v1/webhooks', '/v1/usage']) {
        expect((await live.call('GET', path)).status, path).to.equal(200);
      }
      for (const path of ['/v1/events', '/v1/users/usr_2/api_keys', '/v1/models']) {
        const { status, headers, body } = await live.call('GET', path);
        expect([status, body.error.code], path).to.deep.equal([429, 'rate_limit_exceeded']);
        expect(Number(headers.get('retry-after'))).to.be.within(1, 60);
      }
      expect((await live.call('POST', '/v1/api_keys', { name: 'laptop', scopes: ['models'] })).status).to.equal(201);

      const { key } = await live.gateway.keys.create({ userId: 'usr_2', scopes: ['webhooks'] });
      const other = await fetch(`${live.url}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
      expect(other.status).to.equal(200);
    } finally {
      await live.close();
    }
  });
});
