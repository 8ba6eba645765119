import { expect } from 'chai';
import OpenAI from 'openai';
import type { ModelGateway } from '../../../src/index.ts';
import { type KillableProcess, startProcess } from '../../killed/harness.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
/** Credits that a call reserves, by its `max_tokens`, and that it costs. */
const reserved = 3;
const cost = 1;

describe('an account whose calls are at two processes', function () {
  this.timeout(120_000);
  const { logger: _, ...loopback } = loopbackOptions;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let upstream: ScriptedUpstream;
  let operator: ModelGateway;
  let processes: readonly KillableProcess[];

  before(async () => {
    database = await freshDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, {
      id: 'c',
      choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: cost, total_tokens: 1 + cost },
    });
    const options = {
      ...loopback,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { input: 0, output: 1_000_000 } } },
    };
    operator = await createGateway({ ...options, mongo: database.connection });
    processes = await Promise.all([0, 1].map(() => startProcess({ uri: database.uri, options })));
  });
  after(async () => {
    await Promise.all(processes.map((one) => one.kill()));
    await operator.close();
    await upstream.close();
    await database.drop();
  });

  async function newAccount(credits: number) {
    const userId = `usr_of_${credits}`;
    await operator.credits?.topUp({ userId, credits, reference: 'once' });
    const { key: apiKey } = await operator.keys.create({ userId });
    const clients = processes.map(({ url }) => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 }));
    const left = async () => (await operator.credits?.balance(userId))?.creditsRemaining;
    return { clients, left };
  }

  for (const credits of [4, 8, 400]) {
    it(`is refused none of them while there is enough of ${credits} credits, and is charged what they cost`, async () => {
      const { clients, left } = await newAccount(credits);
      const callers = clients.flatMap((client) => [client, client, client]);
      let made = 0;
      const call = async (client: OpenAI) => {
        made += cost;
        await client.chat.completions.create({ model: 'm', messages, max_tokens: reserved });
      };
      // as long as all that may be under way fits
      const spend = async (client: OpenAI) => {
        while (credits - made >= reserved * callers.length) await call(client);
      };
      await Promise.all(callers.map(spend));
      // then one after the other, each at the other process
      for (let i = 0; credits - made >= reserved; i += 1) await call(clients[i % 2] as OpenAI);
      const refused = await call(clients[0] as OpenAI).catch((error: unknown) => error);
      expect(refused).to.include({ status: 402, code: 'insufficient_credits' });
      await until(async () => (await left()) === reserved - cost);
    });
  }

  it('makes as many at once as fit', async () => {
    const { clients, left } = await newAccount(25);
    const all = Array.from({ length: 200 }, (_, i) =>
      (clients[i % 2] as OpenAI).chat.completions.create({ model: 'm', messages, max_tokens: cost }),
    );
    const outcomes = await Promise.allSettled(all);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).to.have.length(25);
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason.status).to.equal(402);
    await until(async () => (await left()) === 0);
  });
});
