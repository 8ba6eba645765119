import { expect } from 'chai';
import { chunks, json } from '../support/upstream.ts';
import { event, failure, responseOf, type StoredSetup, startStored } from './support.ts';

const reference = (id: string) => ({ type: 'item_reference' as const, id });
const message = (id: string) => ({
  type: 'message' as const,
  role: 'assistant' as const,
  status: 'completed' as const,
  content: [],
  id,
});
const outputOf = (...ids: string[]) => ids.map((id) => ({ id, type: 'message', role: 'assistant', content: [] }));

describe('items in the input of a call', () => {
  let setup: StoredSetup;

  before(async () => {
    setup = await startStored();
  });

  after(() => setup.close());

  /** Makes a response of `usr_1` with these items. */
  async function create(id: string, items: string[], upstream = setup.one, model = 'm') {
    upstream.script = json(200, responseOf(id, { output: outputOf(...items) }));
    await setup.client.responses.create({ model, input: 'Hi' });
  }

  /** Sends a body with these bytes to the path. */
  async function send(path: string, body: string, key = setup.gateway.key) {
    const response = await fetch(`${setup.gateway.url}/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body,
    });
    return { status: response.status, text: await response.text() };
  }

  /** Whether `usr_1` may refer to an item, and `usr_2` may not. */
  async function expectOwned(id: string) {
    const { one, client, stranger } = setup;
    one.script = json(200, responseOf(`resp_after_${id}`, { output: [] }));
    await client.responses.create({ model: 'm', input: [reference(id)] });
    expect(JSON.parse(one.last.body.toString()).input).to.deep.equal([reference(id)]);
    const { code } = await failure(stranger.responses.create({ model: 'm', input: [reference(id)] }));
    expect(code).to.equal('item_not_found');
  }

  it('that another account owns, or nobody, answer 404 without a call to the upstream, and say what to do', async () => {
    await create('resp_mine', ['msg_mine']);
    const { one, stranger } = setup;
    const calls = one.requests.length;
    for (const id of ['msg_mine', 'msg_none']) {
      const input = [{ role: 'user' as const, content: 'Hi' }, reference(id)];
      const refused = await failure(stranger.responses.create({ model: 'm', input }));
      expect([refused.status, refused.code, refused.param]).to.deep.equal([404, 'item_not_found', 'input[1].id']);
      expect(refused.message).to.equal(
        `404 No item ${id} is in this account; send the item itself in place of its id, or first retrieve the response, ` +
          'or list the items of the conversation, that it is in',
      );
    }
    expect(one.requests).to.have.lengthOf(calls);
    await expectOwned('msg_mine');
  });

  it('are checked wherever items go up', async () => {
    await create('resp_places', ['msg_places']);
    const { one, stranger } = setup;
    one.script = json(200, { id: 'conv_stranger', object: 'conversation', created_at: 1, metadata: {} });
    await stranger.conversations.create({});
    const calls = one.requests.length;
    const input = [reference('msg_places')];
    const items = input as never;
    for (const call of [
      () => stranger.responses.create({ model: 'm', input, stream: true }),
      () => stranger.responses.create({ model: 'm', input, store: false }),
      () => stranger.responses.compact({ model: 'm', input }),
      () => stranger.responses.inputTokens.count({ model: 'm', input }),
      () => stranger.conversations.create({ items }),
      () => stranger.conversations.items.create('conv_stranger', { items }),
    ]) {
      const { status, code } = await failure(call());
      expect([status, code]).to.deep.equal([404, 'item_not_found']);
    }
    expect(one.requests).to.have.lengthOf(calls);
  });

  it('are known when the last event of their stream is there', async () => {
    const { one, client } = setup;
    const item = { id: 'msg_streamed', type: 'message', role: 'assistant', content: [] };
    one.script = chunks([
      event('response.created', 0, { response: { id: 'resp_streaming', object: 'response' } }),
      event('response.output_item.added', 1, { output_index: 0, item }),
      event('response.completed', 2, { response: responseOf('resp_streaming', { output: [item] }) }),
    ]);
    for await (const { type } of await client.responses.create({ model: 'm', input: 'Hi', stream: true })) {
      if (type === 'response.completed') await expectOwned('msg_streamed');
    }
  });

  it('are known when the account has been shown them in a list, a response or a conversation', async () => {
    const { one, client } = setup;
    await create('resp_shows', []);
    one.script = json(200, { id: 'conv_shows', object: 'conversation', created_at: 1, metadata: {} });
    await client.conversations.create({});
    const listOf = (id: string) => json(200, { object: 'list', data: outputOf(id), has_more: false });
    one.script = json(200, responseOf('resp_shows', { output: outputOf('msg_retrieved') }));
    await client.responses.retrieve('resp_shows');
    await expectOwned('msg_retrieved');
    one.script = listOf('msg_input');
    await client.responses.inputItems.list('resp_shows');
    await expectOwned('msg_input');
    one.script = listOf('msg_added');
    await client.conversations.items.create('conv_shows', { items: [] });
    await expectOwned('msg_added');
    one.script = listOf('msg_listed');
    await client.conversations.items.list('conv_shows');
    await expectOwned('msg_listed');
    // one that is not known yet is looked for in the list of the conversation first
    one.script = (res, request) =>
      (request.path.endsWith('/msg_read') ? json(200, message('msg_read')) : listOf('msg_read'))(res, request);
    await client.conversations.items.retrieve('msg_read', { conversation_id: 'conv_shows' });
    await expectOwned('msg_read');
  });

  it('with their content may have any id but those that only other accounts have been shown', async () => {
    await create('resp_content', ['msg_content']);
    const { one, client, stranger } = setup;
    one.script = json(200, responseOf('resp_echo'));
    for (const id of ['msg_content', 'msg_never_stored'])
      await client.responses.create({ model: 'm', input: [message(id)] });
    await stranger.responses.create({ model: 'm', input: [message('msg_never_stored')] });
    const refused = await failure(stranger.responses.create({ model: 'm', input: [message('msg_content')] }));
    expect([refused.status, refused.code, refused.param]).to.deep.equal([404, 'item_not_found', 'input[0].id']);
  });

  it('may have the same id in several accounts', async () => {
    const { one, client, stranger } = setup;
    for (const [owner, id] of [
      [client, 'resp_same_1'],
      [stranger, 'resp_same_2'],
    ] as const) {
      one.script = json(200, responseOf(id, { output: outputOf('msg_0') }));
      await owner.responses.create({ model: 'm', input: 'Hi' });
      await owner.responses.create({ model: 'm', input: [reference('msg_0')], store: false });
    }
  });

  it('are checked however their bytes are written', async () => {
    const id = `msg_${'a'.repeat(250)}`;
    await create('resp_bytes', [id]);
    const input = (item: string) => send('/responses', `{"model":"m","input":${item}}`, setup.strangersKey);
    for (const item of [
      `[{"\\u0069d":"${id}"}]`,
      `[{"type":null,"id":"${id}"}]`,
      `[{"type":"item_ref\\u0065rence","role":"user","id":"${id}"}]`,
      `{"type":"item_reference","id":"${id}"}`,
      `[{"type":"item_reference","id":"${id}aaaaaaa"}]`,
      `[{"type":null,"role":null,"id":"${id}"}]`,
      `[{"type":"","role":"","id":"${id}"}]`,
      // an item with content, each character of whose id is escaped
      `[{"type":"reasoning","summary":[],"id":"${[...id].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"}]`,
    ]) {
      expect(JSON.parse((await input(item)).text).error.code, item).to.equal('item_not_found');
    }
    for (const [item, code] of [
      [`[{"id":"msg_1","id":"${id}"}]`, 'duplicate_parameter'],
      [`[{"type":"item_reference","ID":"${id}"}]`, 'unknown_parameter'],
    ] as const) {
      const { status, text } = await input(item);
      expect([status, JSON.parse(text).error.code], item).to.deep.equal([400, code]);
    }
  });

  it('are refused before the database is asked where there are more than 10,000 with ids', async () => {
    const items = Array.from(
      { length: 10_001 },
      (_, i) => `{"type":"message","role":"user","content":"","id":"msg_${i}"}`,
    );
    const { status, text } = await send('/responses', `{"model":"m","input":[${items}]}`);
    expect([status, JSON.parse(text).error.code]).to.deep.equal([413, 'request_too_large']);
  });

  it('that a call refers to are asked of the upstream that keeps them', async () => {
    await create('resp_elsewhere', ['msg_elsewhere'], setup.two, 'other');
    const { one, two, client } = setup;
    const calls = one.requests.length;
    two.script = json(200, responseOf('resp_next'));
    await client.responses.create({ model: 'both', input: [reference('msg_elsewhere')] });
    expect(JSON.parse(two.last.body.toString()).model).to.equal('both');
    const refused = await failure(client.responses.create({ model: 'm', input: [reference('msg_elsewhere')] }));
    expect(refused.code).to.equal('model_not_found');
    expect(one.requests).to.have.lengthOf(calls);
  });

  it('of a model that the key may not call are not found', async () => {
    await create('resp_limited', ['msg_limited'], setup.two, 'other');
    const { key } = await setup.gateway.gateway.keys.create({ userId: 'usr_1', models: ['both'] });
    const { status, text } = await send(
      '/responses',
      JSON.stringify({ model: 'both', input: [reference('msg_limited')] }),
      key,
    );
    expect([status, JSON.parse(text).error.code]).to.deep.equal([404, 'item_not_found']);
  });
});
