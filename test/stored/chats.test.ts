import { expect } from 'chai';
import { chunks, hang, inTurn, json, type Script, stall } from '../support/upstream.ts';
import { failure, type StoredSetup, startStored } from './support.ts';

const chatOf = (id: string) => ({
  id,
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
});
const messages = [{ role: 'user' as const, content: 'Hi' }];

/** Answers what is asked for by id, as a provider that keeps it; 404 for ids in `gone`. */
function keeper(gone: readonly string[] = []): Script {
  return (res, request) => {
    const id = request.path.split('/').at(-1) as string;
    return json(gone.includes(id) ? 404 : 200, chatOf(id))(res, request);
  };
}

describe('stored chat completions', () => {
  let setup: StoredSetup;

  before(async () => {
    setup = await startStored();
  });

  after(() => setup.close());

  async function create(id: string, { model = 'm', metadata = {} }: { model?: string; metadata?: object } = {}) {
    const upstream = model === 'other' ? setup.two : setup.one;
    upstream.script = json(200, chatOf(id));
    await setup.client.chat.completions.create({ model, messages, store: true, metadata: { ...metadata } });
  }

  it('are read, changed and deleted by the account that made them, with their messages', async () => {
    const { client, one } = setup;
    await create('chatcmpl-1');
    one.script = json(200, chatOf('chatcmpl-1'));
    expect((await client.chat.completions.retrieve('chatcmpl-1')).id).to.equal('chatcmpl-1');
    await client.chat.completions.update('chatcmpl-1', { metadata: { a: 'b' } });
    expect([one.last.method, one.last.body.toString()]).to.deep.equal(['POST', '{"metadata":{"a":"b"}}']);
    one.script = json(200, { object: 'list', data: [{ id: 'chatcmpl-1-0', ...messages[0] }], has_more: false });
    const page = await client.chat.completions.messages.list('chatcmpl-1', { limit: 2 });
    expect(page.data.map(({ id }) => id)).to.deep.equal(['chatcmpl-1-0']);
    expect(one.last.path).to.equal('/v1/chat/completions/chatcmpl-1/messages?limit=2');
    one.script = json(200, { id: 'chatcmpl-1', object: 'chat.completion.deleted', deleted: true });
    expect((await client.chat.completions.delete('chatcmpl-1')).deleted).to.equal(true);
    expect((await failure(client.chat.completions.retrieve('chatcmpl-1'))).code).to.equal('chat_completion_not_found');
  });

  it('are stored when they are streamed', async () => {
    const { client, one } = setup;
    one.script = chunks([
      'data: {"id":"chatcmpl-s","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n',
      'data: [DONE]\n\n',
    ]);
    const stream = await client.chat.completions.create({ model: 'm', messages, store: true, stream: true });
    for await (const { id } of stream) expect(id).to.equal('chatcmpl-s');
    one.script = json(200, chatOf('chatcmpl-s'));
    expect((await client.chat.completions.retrieve('chatcmpl-s')).id).to.equal('chatcmpl-s');
  });

  it('are kept only with `store: true`', async () => {
    setup.one.script = json(200, chatOf('chatcmpl-plain'));
    await setup.client.chat.completions.create({ model: 'm', messages });
    expect((await failure(setup.client.chat.completions.retrieve('chatcmpl-plain'))).status).to.equal(404);
  });

  it('belong to the account that made them', async () => {
    const { stranger, one } = setup;
    await create('chatcmpl-mine');
    const calls = one.requests.length;
    for (const call of [
      () => stranger.chat.completions.retrieve('chatcmpl-mine'),
      () => stranger.chat.completions.update('chatcmpl-mine', { metadata: {} }),
      () => stranger.chat.completions.delete('chatcmpl-mine'),
      () => stranger.chat.completions.messages.list('chatcmpl-mine'),
    ]) {
      const { status, code } = await failure(call());
      expect([status, code]).to.deep.equal([404, 'chat_completion_not_found']);
    }
    expect((await stranger.chat.completions.list()).data).to.deep.equal([]);
    expect(one.requests).to.have.lengthOf(calls);
  });

  describe('in a list', () => {
    let own: StoredSetup;

    before(async () => {
      own = await startStored();
      const made: [string, string, object][] = [
        ['chatcmpl-a', 'm', { topic: 'rivers' }],
        ['chatcmpl-b', 'other', { topic: 'rivers', 'x.$y': '1' }],
        ['chatcmpl-c', 'm', { topic: 'lakes' }],
      ];
      for (const [id, model, metadata] of made) {
        (model === 'other' ? own.two : own.one).script = json(200, chatOf(id));
        await own.client.chat.completions.create({ model, messages, store: true, metadata: { ...metadata } });
      }
      own.one.script = keeper();
      own.two.script = keeper();
    });

    after(() => own.close());

    const idsOf = async (query: object) => {
      const page = await own.client.chat.completions.list(query);
      return { ids: page.data.map(({ id }) => id), more: page.has_more };
    };

    it('come from every upstream, the oldest or the newest first, page by page', async () => {
      expect(await idsOf({})).to.deep.equal({ ids: ['chatcmpl-a', 'chatcmpl-b', 'chatcmpl-c'], more: false });
      expect(await idsOf({ order: 'desc', limit: 2 })).to.deep.equal({ ids: ['chatcmpl-c', 'chatcmpl-b'], more: true });
      const rest = await idsOf({ order: 'desc', limit: 2, after: 'chatcmpl-b' });
      expect(rest).to.deep.equal({ ids: ['chatcmpl-a'], more: false });
      const all: string[] = [];
      for await (const { id } of own.client.chat.completions.list({ limit: 1 })) all.push(id);
      expect(all).to.deep.equal(['chatcmpl-a', 'chatcmpl-b', 'chatcmpl-c']);
    });

    it('are filtered by model and metadata', async () => {
      expect((await idsOf({ model: 'm' })).ids).to.deep.equal(['chatcmpl-a', 'chatcmpl-c']);
      expect((await idsOf({ metadata: { topic: 'rivers' } })).ids).to.deep.equal(['chatcmpl-a', 'chatcmpl-b']);
      expect((await idsOf({ metadata: { topic: 'rivers', 'x.$y': '1' } })).ids).to.deep.equal(['chatcmpl-b']);
      await own.client.chat.completions.update('chatcmpl-a', { metadata: { topic: 'seas' } });
      expect((await idsOf({ metadata: { topic: 'seas' } })).ids).to.deep.equal(['chatcmpl-a']);
    });

    it('are refused with a limit or an order that does not exist, and after what is no id', async () => {
      for (const query of ['limit=0', 'limit=101', 'limit=x', 'order=up', 'after=.b']) {
        const { status, body } = await own.gateway.call('GET', `/v1/chat/completions?${query}`);
        expect([status, body.error.code]).to.deep.equal([400, 'invalid_value']);
      }
    });

    it('leave out one that the upstream no longer keeps, and forget it unless it is new', async () => {
      own.one.script = keeper(['chatcmpl-a']);
      const withoutIt = { ids: ['chatcmpl-b', 'chatcmpl-c'], more: false };
      expect(await idsOf({ limit: 2 })).to.deep.equal(withoutIt);
      own.one.script = keeper();
      expect((await own.client.chat.completions.retrieve('chatcmpl-a')).id).to.equal('chatcmpl-a');
      await own.makeOlder('chatcmpl-a', 11 * 60_000);
      own.one.script = keeper(['chatcmpl-a']);
      expect(await idsOf({ limit: 2 })).to.deep.equal(withoutIt);
      expect((await failure(own.client.chat.completions.retrieve('chatcmpl-a'))).code).to.equal(
        'chat_completion_not_found',
      );
    });

    it('come in smaller pages where they are large, and one that is too large is an error', async () => {
      own.one.script = json(200, chatOf('chatcmpl-d'));
      await own.client.chat.completions.create({ model: 'm', messages, store: true });
      const large = (megabytes: number): Script => {
        const filler = Buffer.alloc(megabytes * 1024 * 1024, ' ');
        return (res, request) => {
          const chat = JSON.stringify(chatOf(request.path.split('/').at(-1) as string));
          return json(200, Buffer.concat([filler, Buffer.from(chat)]))(res, request);
        };
      };
      own.one.script = own.two.script = large(9);
      expect(await idsOf({})).to.deep.equal({ ids: ['chatcmpl-b', 'chatcmpl-c'], more: true });
      expect(await idsOf({ after: 'chatcmpl-c' })).to.deep.equal({ ids: ['chatcmpl-d'], more: false });
      own.two.script = large(17);
      expect((await failure(own.client.chat.completions.list())).code).to.equal('upstream_invalid_response');
    });
  });

  it('are listed with a 504 when their upstream exceeds its time limits', async () => {
    const slow = await startStored({}, { firstByte: 2_000, betweenChunks: 2_000 });
    try {
      const { client, one } = slow;
      for (const id of ['chatcmpl-1', 'chatcmpl-2']) {
        one.script = json(200, chatOf(id));
        await client.chat.completions.create({ model: 'm', messages, store: true });
      }
      const slowly = inTurn(hang, stall('{"id":', { 'content-type': 'application/json' }));
      one.script = (res, request) => (request.path.endsWith('1') ? slowly : keeper())(res, request);
      for (const { status, code } of await Promise.all([0, 1].map(() => failure(client.chat.completions.list())))) {
        expect([status, code]).to.deep.equal([504, 'upstream_timeout']);
      }
    } finally {
      await slow.close();
    }
  });
});
