import { expect } from 'chai';
import { json } from '../support/upstream.ts';
import { failure, responseOf, type StoredSetup, startStored } from './support.ts';

const conversationOf = (id: string, metadata: object = {}) => ({ id, object: 'conversation', created_at: 1, metadata });

describe('conversations', () => {
  let setup: StoredSetup;

  before(async () => {
    setup = await startStored();
  });

  after(() => setup.close());

  async function create(id: string) {
    setup.one.script = json(200, conversationOf(id));
    return setup.client.conversations.create({});
  }

  it('are created, read, changed and deleted, with their items', async () => {
    const { client, one } = setup;
    one.script = json(200, conversationOf('conv_1', { topic: 'rivers' }));
    expect((await client.conversations.create({ metadata: { topic: 'rivers' } })).id).to.equal('conv_1');
    expect(one.last.body.toString()).to.equal('{"metadata":{"topic":"rivers"}}');
    expect((await client.conversations.retrieve('conv_1')).id).to.equal('conv_1');
    await client.conversations.update('conv_1', { metadata: { topic: 'lakes' } });
    expect([one.last.method, one.last.path]).to.deep.equal(['POST', '/v1/conversations/conv_1']);

    one.script = json(200, { object: 'list', data: [{ id: 'msg_1', type: 'message' }], has_more: false });
    const item = { type: 'message' as const, role: 'user' as const, content: 'Hi' };
    const added = await client.conversations.items.create('conv_1', { items: [item] });
    expect(added.data.map(({ id }) => id)).to.deep.equal(['msg_1']);
    const listed = await client.conversations.items.list('conv_1', { limit: 3 });
    expect(listed.data).to.have.lengthOf(1);
    expect(one.last.path).to.equal('/v1/conversations/conv_1/items?limit=3');

    one.script = json(200, { id: 'msg_1', type: 'message' });
    await client.conversations.items.retrieve('msg_1', { conversation_id: 'conv_1' });
    expect([one.last.method, one.last.path]).to.deep.equal(['GET', '/v1/conversations/conv_1/items/msg_1']);
    one.script = json(200, conversationOf('conv_1'));
    await client.conversations.items.delete('msg_1', { conversation_id: 'conv_1' });
    expect([one.last.method, one.last.path]).to.deep.equal(['DELETE', '/v1/conversations/conv_1/items/msg_1']);

    one.script = json(200, { id: 'conv_1', object: 'conversation.deleted', deleted: true });
    expect((await client.conversations.delete('conv_1')).deleted).to.equal(true);
    expect((await failure(client.conversations.retrieve('conv_1'))).code).to.equal('conversation_not_found');
  });

  it('belong to the account that made them', async () => {
    const { stranger, one } = setup;
    await create('conv_mine');
    const calls = one.requests.length;
    const refused = [
      () => stranger.conversations.retrieve('conv_mine'),
      () => stranger.conversations.update('conv_mine', { metadata: {} }),
      () => stranger.conversations.delete('conv_mine'),
      () => stranger.conversations.items.list('conv_mine'),
      () => stranger.conversations.items.create('conv_mine', { items: [] }),
      () => stranger.conversations.items.retrieve('msg_1', { conversation_id: 'conv_mine' }),
      () => stranger.conversations.items.delete('msg_1', { conversation_id: 'conv_mine' }),
      () => stranger.responses.create({ model: 'm', input: 'Hi', conversation: 'conv_mine' }),
      () => stranger.responses.create({ model: 'm', input: 'Hi', conversation: { id: 'conv_mine' } }),
    ];
    for (const call of refused) {
      const { status, code } = await failure(call());
      expect([status, code]).to.deep.equal([404, 'conversation_not_found']);
    }
    expect(one.requests).to.have.lengthOf(calls);
  });

  it('are continued at the upstream that keeps them', async () => {
    const { client, one, two } = setup;
    await create('conv_kept');
    const calls = two.requests.length;
    one.script = json(200, responseOf('resp_1'));
    await client.responses.create({ model: 'both', input: 'Hi', conversation: { id: 'conv_kept' } });
    expect(JSON.parse(one.last.body.toString())).to.deep.include({ conversation: { id: 'conv_kept' } });
    const elsewhere = await failure(
      client.responses.create({ model: 'other', input: 'Hi', conversation: 'conv_kept' }),
    );
    expect(elsewhere.code).to.equal('model_not_found');
    expect(two.requests).to.have.lengthOf(calls);
  });

  it('refuse an item id that an upstream could read as a path', async () => {
    await create('conv_path');
    const calls = setup.one.requests.length;
    for (const id of ['..%2f..%2fresponses%2fresp_1', 'a%2fb', '.a']) {
      const { status } = await setup.gateway.call('GET', `/v1/conversations/conv_path/items/${id}`);
      expect(status).to.equal(400);
    }
    expect(setup.one.requests).to.have.lengthOf(calls);
  });
});
