import { expect } from 'chai';
import { json, type RecordedRequest } from '../support/upstream.ts';
import { failure, responseOf, type StoredSetup, startStored } from './support.ts';

/** What a list has after some id. Two a page. */
function pageOf(ids: readonly string[], { path }: RecordedRequest) {
  const after = new URL(path, 'http://one').searchParams.get('after');
  const rest = ids.slice(after === null ? 0 : ids.indexOf(after) + 1);
  return { object: 'list', data: rest.slice(0, 2).map((id) => ({ id })), has_more: rest.length > 2 };
}

describe('a part of an object that the gateway has not seen made', () => {
  let setup: StoredSetup;

  before(async () => {
    setup = await startStored();
  });

  after(() => setup.close());

  /** Has the account own a container, a vector store or a conversation of this id. */
  async function own(id: string) {
    const { client, one } = setup;
    one.script = json(200, { id, name: id });
    if (id.startsWith('vs')) await client.vectorStores.create({});
    else if (id.startsWith('conv')) await client.conversations.create({});
    else await client.containers.create({ name: id });
  }

  /** Answers lists with these, page by page, and anything else with what it is asked for. */
  function serve(ids: readonly string[]) {
    setup.one.script = (res, request) => {
      const last = request.path.split('?')[0]?.split('/').at(-1) as string;
      return json(200, /^(?:files|items|versions)$/.test(last) ? pageOf(ids, request) : { id: last })(res, request);
    };
  }

  const paths = () => setup.one.requests.map(({ path }) => path.replace('/v1/', ''));

  it('goes up when the list of its object has it, on whatever page, and is known from then on', async () => {
    const { client, one } = setup;
    await own('cntr_pages');
    // such as a model has made in it
    serve(['cfile_a', 'cfile_b', 'cfile_c', 'cfile_d', 'cfile_e']);
    const from = one.requests.length;
    const read = () => client.containers.files.retrieve('cfile_c', { container_id: 'cntr_pages' });
    expect((await read()).id).to.equal('cfile_c');
    const list = 'containers/cntr_pages/files?limit=100';
    const asked = [list, `${list}&after=cfile_b`, 'containers/cntr_pages/files/cfile_c'];
    expect(paths().slice(from)).to.deep.equal(asked);
    await read();
    expect(paths().slice(from)).to.deep.equal([...asked, 'containers/cntr_pages/files/cfile_c']);
  });

  it('is not found where the list does not have it, and its id does not go up', async () => {
    const { client, one } = setup;
    await own('cntr_two');
    await own('cntr_three');
    const [two, three] = [{ container_id: 'cntr_two' }, { container_id: 'cntr_three' }];
    serve(['cfile_two']);
    await client.containers.files.retrieve('cfile_two', two);
    serve(['cfile_other']);
    const from = one.requests.length;
    // what is known of one container is not of another
    const refused = await failure(client.containers.files.delete('cfile_two', three));
    expect([refused.status, refused.code, refused.param]).to.deep.equal([404, 'file_not_found', 'file_id']);
    expect(paths().slice(from)).to.deep.equal(['containers/cntr_three/files?limit=100']);
    one.script = json(404, { error: { message: 'gone' } });
    expect((await failure(client.containers.files.retrieve('cfile_none', three))).code).to.equal('file_not_found');
  });

  it('is looked for on ten pages at most, and no further where pages repeat', async () => {
    const { client, one } = setup;
    await own('conv_long');
    const read = () => failure(client.conversations.items.retrieve('msg_none', { conversation_id: 'conv_long' }));
    serve(Array.from({ length: 50 }, (_, i) => `msg_long_${i}`));
    let from = one.requests.length;
    expect((await read()).code).to.equal('item_not_found');
    expect(one.requests).to.have.lengthOf(from + 10);
    from = one.requests.length;
    one.script = json(200, { object: 'list', data: [{ id: 'msg_same' }], has_more: true });
    expect((await read()).code).to.equal('item_not_found');
    expect(one.requests).to.have.lengthOf(from + 2);
  });

  it('is a file of a vector store also where the file itself was deleted', async () => {
    const { client } = setup;
    await own('vs_kept');
    serve(['file-deleted']);
    const inStore = { vector_store_id: 'vs_kept' };
    expect((await client.vectorStores.files.retrieve('file-deleted', inStore)).id).to.equal('file-deleted');
    // that makes it no file of the account
    expect((await failure(client.files.retrieve('file-deleted'))).code).to.equal('file_not_found');
    expect((await failure(client.vectorStores.files.delete('file-none', inStore))).code).to.equal('file_not_found');
  });

  it('is an item that a response has put into the conversation, known by the answer of that', async () => {
    const { client, one } = setup;
    await own('conv_response');
    const output = [{ id: 'msg_of_response', type: 'message', role: 'assistant', content: [] }];
    one.script = json(200, responseOf('resp_in_conversation', { output }));
    await client.responses.create({ model: 'm', input: 'Hi', conversation: 'conv_response' });
    serve([]);
    const from = one.requests.length;
    await client.conversations.items.retrieve('msg_of_response', { conversation_id: 'conv_response' });
    expect(paths().slice(from)).to.deep.equal(['conversations/conv_response/items/msg_of_response']);
  });

  it('is found for nobody while its upstream fails, with that error', async () => {
    const { client, one } = setup;
    await own('cntr_fails');
    one.script = json(400, { error: { message: 'no' } });
    const refused = await failure(client.containers.files.retrieve('cfile_x', { container_id: 'cntr_fails' }));
    expect([refused.status, refused.code]).to.deep.equal([502, 'upstream_error']);
  });
});
