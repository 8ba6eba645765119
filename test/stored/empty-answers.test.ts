import { expect } from 'chai';
import type OpenAI from 'openai';
import { toFile } from 'openai';
import { json, type Script } from '../support/upstream.ts';
import { failure, type StoredSetup, startStored } from './support.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const nothing: readonly unknown[] = [null, {}, [], 'ok', { detail: 'Not ready' }];

describe('an answer about what an upstream keeps that says nothing', () => {
  let setup: StoredSetup;
  beforeEach(async () => {
    setup = await startStored();
  });
  afterEach(() => setup.close());

  const answerAll = (script: Script) => {
    for (const upstream of [setup.one, setup.two]) {
      upstream.requests.length = 0;
      upstream.script = script;
    }
  };
  const calls = () => setup.one.requests.length + setup.two.requests.length;

  it('makes nothing, and is asked for once: the upstream may have made it', async () => {
    const makes: [what: string, make: (client: OpenAI) => Promise<unknown>][] = [
      [
        'a file',
        async (by) => by.files.create({ file: await toFile(Buffer.from('x'), 'a.txt'), purpose: 'user_data' }),
      ],
      ['a vector store', (by) => by.vectorStores.create({})],
      ['a container', (by) => by.containers.create({ name: 'c' })],
      ['a conversation', (by) => by.conversations.create({})],
    ];
    for (const [what, make] of makes) {
      const body = nothing[makes.findIndex(([name]) => name === what)];
      answerAll(json(200, body));
      const { status, code } = await failure(make(setup.client));
      expect([status, code, calls()], what).to.deep.equal([502, 'upstream_invalid_response', 1]);
    }
  });

  it('is 502 for what is kept, and counts against its upstream', async () => {
    const { client, one } = setup;
    one.script = json(200, { id: 'conv_1', object: 'conversation' });
    setup.two.script = one.script;
    await client.conversations.create({});
    for (const body of nothing) {
      answerAll(json(200, body));
      const { status, code } = await failure(client.conversations.retrieve('conv_1'));
      expect([status, code, calls()], JSON.stringify(body)).to.deep.equal([502, 'upstream_invalid_response', 1]);
    }
    answerAll(json(200, { id: 'conv_1', object: 'conversation' }));
    // five in a row have opened the breaker
    expect([(await failure(client.conversations.retrieve('conv_1'))).status, calls()]).to.deep.equal([502, 0]);
  });

  it('is 502 for what is listed', async () => {
    const { client, one } = setup;
    one.script = json(200, { id: 'chat_1', object: 'chat.completion', choices: [{}] });
    await client.chat.completions.create({ model: 'm', messages, store: true });
    for (const body of nothing) {
      answerAll(json(200, body));
      const list = failure(client.chat.completions.list());
      expect((await list).code, JSON.stringify(body)).to.equal('upstream_invalid_response');
    }
  });

  it('may confirm a deletion', async () => {
    const { client } = setup;
    answerAll(json(200, { id: 'conv_1', object: 'conversation' }));
    await client.conversations.create({});
    answerAll(json(200, {}));
    await client.conversations.delete('conv_1');
    expect((await failure(client.conversations.retrieve('conv_1'))).status).to.equal(404);
  });
});
