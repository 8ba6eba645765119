import { expect } from 'chai';
import OpenAI from 'openai';
import type { CreditOptions } from '../../src/index.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../support/gateway.ts';
import { freshDatabase, patientUri } from '../support/mongo.ts';
import { paceLimits } from '../support/paced-limits.ts';
import { refusalOf } from '../support/refusal.ts';
import { eventually, until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

/** Sixty calls have a busy machine at work for longer than one call. Milliseconds. */
const longestWait = 150_000;

/** A token costs a credit, so that a call of few tokens is dear. */
const prices = {
  '*': { input: 0, output: 1_000_000 },
  told: { input: 1_000_000 },
  picture: { image: 40 },
  drawing: { image: 1 },
  voice: { character: 1_000_000 },
  recording: { second: 1 },
  vector: { input: 1_000_000 },
};

describe('what a call may cost at most', () => {
  paceLimits();
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let upstream: ScriptedUpstream;
  /** Two gateways on one database. */
  let gateways: readonly LiveGateway[];
  let accounts = 0;

  before(async () => {
    database = await freshDatabase();
    upstream = await ScriptedUpstream.start();
    gateways = await startTwo({ prices, expectedOutputTokens: 10 });
  });
  beforeEach(() => {
    upstream.script = answering(1);
  });
  after(async () => {
    for (const { close } of gateways) await close();
    await upstream.close();
    await database.drop();
  });

  /** A chat that has used so many tokens. */
  const answering = (tokens: number) =>
    json(200, {
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: tokens, total_tokens: 1 + tokens },
    });

  const secretKeys = [newSecretKey()];
  function startOne(credits: CreditOptions, collectionPrefix = 'gateway_') {
    const upstreams = [{ name: 'scripted', baseUrl: upstream.baseUrl }];
    return startGateway({ mongo: patientUri(database.uri), secretKeys, upstreams, credits, collectionPrefix });
  }

  const startTwo = (...given: Parameters<typeof startOne>) => Promise.all([startOne(...given), startOne(...given)]);

  /** An account with so many credits, and a client of it at each gateway. */
  async function newAccount(credits: number, of = gateways) {
    accounts += 1;
    const userId = `usr_most_${accounts}`;
    const [first] = of as [LiveGateway];
    if (credits > 0) await first.gateway.credits?.topUp({ userId, credits, reference: 'once' });
    const { key: apiKey } = await first.gateway.keys.create({ userId });
    const clients = of.map(({ url }) => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 }));
    const balance = async () => (await first.gateway.credits?.balance(userId))?.creditsRemaining ?? Number.NaN;
    return { userId, apiKey, clients, client: clients[0] as OpenAI, balance };
  }

  const messages = [{ role: 'user' as const, content: 'Hi' }];
  const chat = (client: OpenAI, more: object = {}) =>
    client.chat.completions.create({ model: 'm', messages, max_tokens: 1, ...more });

  const sound = () => new File([new Uint8Array(8_000 * 60)], 'talk.mp3');
  const image = () => new File([new Uint8Array(100)], 'a.png', { type: 'image/png' });
  type Attack = readonly [says: string, call: (client: OpenAI) => Promise<unknown>, cost: number, param: string];
  const attacks: readonly Attack[] = [
    ['chat, n: 1000000', (client) => chat(client, { n: 1_000_000 }), 1_000_000, 'n'],
    ['chat, n: 1e308', (client) => chat(client, { n: 1e308 }), 1_000_000_000, 'n'],
    ['chat, best_of', (client) => chat(client, { best_of: 30 }), 30, 'best_of'],
    ['chat, max_tokens', (client) => chat(client, { max_tokens: 5_000 }), 5_000, 'max_tokens'],
    ['chat, max_tokens: 1e308', (client) => chat(client, { max_tokens: 1e308 }), 1_000_000_000, 'max_tokens'],
    [
      'chat, the larger of two limits',
      (client) => chat(client, { max_completion_tokens: 7_000 }),
      7_000,
      'max_completion_tokens',
    ],
    [
      'chat without a limit',
      (client) => client.chat.completions.create({ model: 'm', messages }),
      10,
      'max_completion_tokens',
    ],
    ['chat with a limit below zero', (client) => chat(client, { max_tokens: -1 }), 10, 'max_completion_tokens'],
    [
      'completions, a list of prompts',
      (client) => client.completions.create({ model: 'm', prompt: ['a', 'b', 'c', 'd'], max_tokens: 1 }),
      4,
      'prompt',
    ],
    [
      'completions, n for each of two prompts',
      (client) => client.completions.create({ model: 'm', prompt: ['a', 'b'], max_tokens: 1, n: 10 }),
      20,
      'n',
    ],
    [
      'responses',
      (client) => client.responses.create({ model: 'm', input: 'Hi', max_output_tokens: 90 }),
      90,
      'max_output_tokens',
    ],
    [
      'responses without a limit',
      (client) => client.responses.create({ model: 'm', input: 'Hi' }),
      10,
      'max_output_tokens',
    ],
    [
      'responses in the background',
      (client) => client.responses.create({ model: 'm', input: 'Hi', background: true, max_output_tokens: 90 }),
      90,
      'max_output_tokens',
    ],
    ['images, n: 1000', (client) => client.images.generate({ model: 'picture', prompt: 'x', n: 1_000 }), 40_000, 'n'],
    [
      'images, n: 1e308',
      (client) => client.images.generate({ model: 'picture', prompt: 'x', n: 1e308 }),
      1_000_000_000,
      'n',
    ],
    ['edits', (client) => client.images.edit({ model: 'picture', prompt: 'x', image: image(), n: 1_000 }), 40_000, 'n'],
    [
      'variations',
      (client) => client.images.createVariation({ model: 'picture', image: image(), n: 999_999_999 }),
      1_000_000_000,
      'n',
    ],
    [
      'speech',
      (client) => client.audio.speech.create({ model: 'voice', voice: 'alloy', input: 'x'.repeat(500) }),
      500,
      'input',
    ],
    [
      'transcriptions',
      (client) => client.audio.transcriptions.create({ model: 'recording', file: sound() }),
      60,
      'file',
    ],
    ['translations', (client) => client.audio.translations.create({ model: 'recording', file: sound() }), 60, 'file'],
  ];
  for (const [says, call, cost, param] of attacks) {
    it(`is refused where it does not fit: ${says}`, async () => {
      const account = await newAccount(1.5);
      const before = upstream.requests.length;
      const error = await refusalOf(call(account.client));
      expect(error).to.include({ status: 402, code: 'insufficient_credits', type: 'insufficient_quota', param });
      expect(error.message).to.include(
        `may cost ${cost} credits, and this account has 1.5 left; lower ${param}, or add some`,
      );
      expect(error.headers?.get('x-should-retry')).to.equal('false');
      expect(upstream.requests).to.have.length(before);
      // nothing is held back for what was refused
      expect((await chat(account.client)).choices).to.have.length(1);
    });
  }

  it('is refused by its input where that is dear: a long prompt, embeddings', async () => {
    const { client } = await newAccount(20);
    const content = 'x'.repeat(4_000);
    const messages = [{ role: 'user' as const, content }];
    const long = await refusalOf(client.chat.completions.create({ model: 'told', messages }));
    expect(long).to.include({ status: 402, param: 'messages' });
    expect(long.message).to.match(/may cost 10\d\d credits, and this account has 20 left; lower messages/);
    const vector = await refusalOf(client.embeddings.create({ model: 'vector', input: content }));
    expect(vector).to.include({ status: 402, param: 'input' });
  });

  for (const wrong of ['1000', true, [5], { a: 1 }]) {
    it(`is never hidden in what is no number: ${JSON.stringify(wrong)}`, async () => {
      const { client } = await newAccount(1.5);
      const before = upstream.requests.length;
      for (const field of ['n', 'best_of', 'max_tokens', 'max_completion_tokens']) {
        expect(await refusalOf(chat(client, { [field]: wrong })), field).to.include({ status: 400 });
      }
      const body = { model: 'm', input: 'Hi', max_output_tokens: wrong as unknown as number };
      expect(await refusalOf(client.responses.create(body)), 'max_output_tokens').to.include({ status: 400 });
      expect(upstream.requests).to.have.length(before);
    });
  }

  for (const n of ['1e308', '-1', '1_000', '0x3e8', '2.5', '+1000', '１０００', '99999999999']) {
    it(`is never hidden in a form: n=${n}`, async () => {
      const { apiKey } = await newAccount(41);
      const before = upstream.requests.length;
      const form = new FormData();
      form.set('model', 'picture');
      form.set('n', n);
      form.set('image', image());
      const [{ url }] = gateways as [LiveGateway];
      const authorization = `Bearer ${apiKey}`;
      const { status } = await fetch(`${url}/v1/images/variations`, {
        method: 'POST',
        headers: { authorization },
        body: form,
      });
      if (n === '-1') expect(upstream.requests.length - before, 'one image, whatever that is').to.equal(1);
      else expect([status, upstream.requests.length - before]).to.deep.equal([400, 0]);
    });
  }

  it('is admitted with as much as it costs', async () => {
    const { client, balance } = await newAccount(3);
    upstream.script = answering(3);
    expect((await chat(client, { n: 3 })).choices).to.have.length(1);
    await until(async () => (await balance()) === 0);
    const error = await refusalOf(chat(client));
    expect(error.message).to.include('has no credits left');
  });

  it('is what is reserved while it is under way: of 60 calls at once, as many as fit are made', async () => {
    for (const credits of [1, 7]) {
      const { clients, balance } = await newAccount(credits);
      const before = upstream.requests.length;
      let answer = (): void => {};
      const all = new Promise<void>((resolve) => {
        answer = resolve;
      });
      upstream.script = async (...exchange) => {
        await all;
        return answering(1)(...exchange);
      };
      const calls = Array.from({ length: 60 }, (_, i) => chat(clients[i % 2] as OpenAI));
      let refused = 0;
      for (const call of calls) {
        call.catch((error) => {
          expect(error).to.include({ status: 402, code: 'insufficient_credits' });
          refused += 1;
        });
      }
      const reached = () => upstream.requests.length - before;
      await until(() => refused + reached() >= 60, longestWait);
      expect({ refused, reached: reached() }).to.deep.equal({ refused: 60 - credits, reached: credits });
      answer();
      await Promise.allSettled(calls);
      expect(reached()).to.equal(credits);
      await until(async () => (await balance()) === 0);
    }
  });

  it('never refuses a call while there is enough, at two gateways, and never takes a balance below zero', async () => {
    for (const credits of [4, 8, 40]) {
      const { clients, balance, userId } = await newAccount(credits);
      const before = upstream.requests.length;
      let made = 0;
      let refused = 0;
      // each is reserved as 3 and costs 1: what is left for sure is more than others hold
      async function spend(client: OpenAI): Promise<void> {
        while (credits - made >= 3 * 4) {
          made += 1;
          await chat(client, { max_tokens: 3 }).catch((error) => {
            refused += 1;
            expect(error.status).to.equal(402);
          });
        }
      }
      await Promise.all([0, 1, 2, 3].map((i) => spend(clients[i % 2] as OpenAI)));
      // one after the other, each at the other gateway, until one more does not fit
      for (let i = 0; credits - made >= 3; i += 1) {
        made += 1;
        await chat(clients[i % 2] as OpenAI, { max_tokens: 3 });
      }
      expect({ refused, calls: upstream.requests.length - before }).to.deep.equal({ refused: 0, calls: credits - 2 });
      // until the other gateway has told what its last call released, less is left
      await until(async () => {
        const error = await refusalOf(chat(clients[0] as OpenAI, { max_tokens: 3 }));
        expect(error.message).to.match(/may cost 3 credits, and this account has [0-2] left/);
        return error.message.includes('has 2 left');
      });
      const ledger = database.connection.collection('gateway_credit_ledger');
      await until(async () => (await ledger.countDocuments({ userId })) === credits - 1);
      expect(await balance()).to.equal(2);
    }
  });

  it('is added to what others reserve at the same moment, whichever gateway they are at', async () => {
    const { clients, balance, userId } = await newAccount(200);
    const calls = await Promise.allSettled(
      Array.from({ length: 300 }, (_, i) => chat(clients[i % 2] as OpenAI, { max_tokens: 1 })),
    );
    const made = calls.filter(({ status }) => status === 'fulfilled').length;
    expect(made).to.equal(200);
    const ledger = database.connection.collection('gateway_credit_ledger');
    await until(async () => (await ledger.countDocuments({ userId })) === 201);
    expect(await balance()).to.equal(0);
  });

  it('stays reserved for a response in the background when the process that made it has ended', async () => {
    const { apiKey, clients } = await newAccount(100);
    const leaving = await startOne({ prices });
    const client = new OpenAI({ apiKey, baseURL: `${leaving.url}/v1`, maxRetries: 0 });
    upstream.script = json(200, { id: `resp_${accounts}`, object: 'response', status: 'in_progress', output: [] });
    await client.responses.create({ model: 'm', input: 'Hi', background: true, max_output_tokens: 90 });
    await leaving.close();
    upstream.script = answering(1);
    const error = await refusalOf(chat(clients[0] as OpenAI, { max_tokens: 20 }));
    expect(error.message).to.match(/may cost 20 credits, and this account has 10 left, beside 90 that are reserved/);
    expect((await chat(clients[0] as OpenAI, { max_tokens: 10 })).choices).to.have.length(1);
  });

  it('is free again when what costs more than was reserved has been charged, also where nothing was', async () => {
    const credits = { prices: { ...prices, '*': {} }, toolPrices: { web_search: 1 } };
    const searching = await startOne(credits, 'searching_');
    try {
      const { client, balance } = await newAccount(3, [searching]);
      const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, num_search_queries: 1 };
      upstream.script = json(200, { id: 'c', object: 'chat.completion', choices: [{ index: 0 }], usage });
      await chat(client);
      await until(async () => (await balance()) === 2);
      upstream.script = json(200, { created: 1, data: [{ url: 'a' }, { url: 'b' }] });
      const { data } = await client.images.generate({ model: 'drawing', prompt: 'x', n: 2 });
      expect(data).to.have.length(2);
    } finally {
      await searching.close();
    }
  });

  it('is free again at once when a call has failed', async () => {
    const { clients } = await newAccount(1);
    for (let i = 0; i < 6; i += 1) {
      upstream.script = json(400, { error: { message: 'no' } });
      expect(await refusalOf(chat(clients[i % 2] as OpenAI))).to.include({ status: 400 });
    }
    upstream.script = answering(1);
    expect((await chat(clients[1] as OpenAI)).choices).to.have.length(1);
  });

  describe('with an overdraft', () => {
    let both: readonly LiveGateway[];
    before(async () => {
      both = await startTwo({ prices, overdraft: 5 }, 'overdraft_');
    });
    after(async () => {
      for (const { close } of both) await close();
    });

    it('may reach so far below zero, also for an account that never had anything', async () => {
      for (const credits of [0, 2]) {
        const { clients, balance } = await newAccount(credits, both);
        const calls = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => chat(clients[i % 2] as OpenAI)));
        expect(calls.filter(({ status }) => status === 'fulfilled')).to.have.length(credits + 5);
        expect(await eventually(balance, (now) => now <= -5)).to.equal(-5);
        const { status } = await refusalOf(chat(clients[0] as OpenAI));
        expect(status).to.equal(402);
      }
    });
  });
});
