import { expect } from 'chai';
import type { ResponseBody } from '../../src/outbound/exchange.ts';
import { OutboundError } from '../../src/outbound/outbound-error.ts';
import { collect } from '../../src/proxy/answer-body.ts';
import { AnsweredItems, type ShownObject } from '../../src/stored/answer-ids.ts';
import type { StoredKind } from '../../src/stored/kinds.ts';
import { ownedResponse, shownParts } from '../../src/stored/recorded-answer.ts';
import { flow, sentBody } from '../support/body-sinks.ts';

const keeper = { userId: 'usr_1', upstream: 'one', model: null };

/** The body of an answer that makes an object, once its owner is recorded. */
function owned(source: ResponseBody, kind: StoredKind, record: (id: string) => Promise<void>) {
  const objects = {
    async add({ id }: { readonly id: string }) {
      await record(id);
      return true;
    },
    async addShown() {},
  };
  return ownedResponse({ headers: {}, data: source }, { kind, ...keeper }, objects).data;
}

/** A body that the test sends, and what the client gets of it. */
function open(kind: StoredKind, record: (id: string) => Promise<void>) {
  const source = sentBody();
  let text = '';
  const outcome = flow(owned(source, kind, record), (chunk) => {
    text += chunk.toString();
  });
  return { source, outcome, text: () => text };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('a body whose owner is recorded', () => {
  const plain: [string, string][] = [
    ['first', '{"id":"resp_1","object":"response"}'],
    ['last', `{"object":"response","output":[{"id":"msg_1","text":"${'A'.repeat(400_000)}"}],"id":"resp_1"}`],
    // pieces of 1,000 bytes: the first ones are nothing but white space
    ['after white space', `${'\n'.repeat(2_500)}{"id":"resp_1","object":"response"}`],
    ['first, before much else', `{ "id" : "resp_1","text":"${'A'.repeat(400_000)}"}`],
  ];
  for (const [where, answer] of plain) {
    it(`is held until its id, which stands ${where}, is recorded`, async () => {
      let recorded = () => {};
      const ids: string[] = [];
      const { source, outcome, text } = open('response', (id) => {
        ids.push(id);
        return new Promise((resolve) => {
          recorded = resolve;
        });
      });
      for (let at = 0; at < answer.length; at += 1_000) source.push(Buffer.from(answer.slice(at, at + 1_000)));
      source.settle('end');
      await turn();
      expect([ids, text()]).to.deep.equal([['resp_1'], '']);
      recorded();
      expect(await outcome).to.equal('end');
      expect(text()).to.equal(answer);
    });
  }

  it('reaches the client whole where the gateway stops at a part of it, to look whether it is valid', async () => {
    const answer = `{"object":"response","instructions":"${'A'.repeat(400_000)}","id":"resp_1"}`;
    let recorded = () => {};
    const source = sentBody();
    const body = owned(source, 'response', () => new Promise((resolve) => (recorded = resolve)));
    const collecting = collect(body, 256 * 1024);
    for (let at = 0; at < answer.length; at += 1_000) source.push(Buffer.from(answer.slice(at, at + 1_000)));
    source.settle('end');
    await turn();
    recorded();
    const { bytes, whole } = await collecting;
    expect(whole).to.equal(false);
    const rest: Buffer[] = [];
    expect(await flow(body, (chunk) => rest.push(chunk))).to.equal('end');
    expect(Buffer.concat([bytes, ...rest]).toString()).to.equal(answer);
  });

  it('sends the events before its id at once, and holds the one with the id, however it is split', async () => {
    const before = ': hello\r\n\r\nevent: x\r\ndata: {"type":"x","item_id":"msg_1"}\r\n\r\n';
    const after =
      'event: response.created\r\ndata: {"response":{"tools":[{"id":"t"}],"id":"resp_1"}}\r\n\r\ndata: {}\r\n\r\n';
    let recorded = () => {};
    const { source, outcome, text } = open('response', () => new Promise((resolve) => (recorded = resolve)));
    for (const character of before + after) source.push(Buffer.from(character));
    await turn();
    expect(text()).to.equal(before);
    recorded();
    source.settle('end');
    expect(await outcome).to.equal('end');
    expect(text()).to.equal(before + after);
  });

  it('ends with the cause when what it is sent to throws', async () => {
    const cause = new Error('cannot write');
    const source = sentBody();
    const outcome = flow(
      owned(source, 'conversation', async () => {}),
      () => {
        throw cause;
      },
    );
    source.push(Buffer.from('{"id":"conv_1"}'));
    source.settle('end');
    expect(((await outcome) as OutboundError).cause).to.equal(cause);
  });

  it('is not sent when its owner cannot be recorded, and ends with the cause', async () => {
    const cause = new Error('no database');
    const { source, outcome, text } = open('conversation', () => Promise.reject(cause));
    source.push(Buffer.from('{"id":"conv_1"}'));
    source.settle('end');
    expect(((await outcome) as OutboundError).cause).to.equal(cause);
    expect(text()).to.equal('');
  });

  it('is not sent when its id is no text or could be read as a path', async () => {
    for (const id of ['../models', '.', '..', 'a/b', '', 7]) {
      const { source, outcome, text } = open('conversation', async () => {});
      source.push(Buffer.from(JSON.stringify({ id })));
      source.settle('end');
      expect(((await outcome) as OutboundError).code, String(id)).to.equal('invalid_response');
      expect(text()).to.equal('');
    }
  });

  it('is sent unchanged when it has no id, and only up to the event with the id when it breaks off', async () => {
    const unnamed = open('response', async () => {});
    unnamed.source.push(Buffer.from('{"object":"response"}'));
    unnamed.source.settle('end');
    expect(await unnamed.outcome).to.equal('end');
    expect(unnamed.text()).to.equal('{"object":"response"}');

    const broken = open('response', async () => {});
    broken.source.push(Buffer.from('data: {"a":1}\n\ndata: {"response":{"id":"resp'));
    broken.source.settle(new OutboundError('reset', 'gone'));
    expect(((await broken.outcome) as OutboundError).code).to.equal('reset');
    expect(broken.text()).to.equal('data: {"a":1}\n\n');
  });
});

const answerWithItem = Buffer.from('{"output":[{"id":"msg_1"}]}');

/** A body that the test sends, as a client gets it. */
function showing(store: (ids: readonly string[]) => Promise<void>) {
  const source = sentBody();
  const addShown = (shown: readonly ShownObject[]) => store(shown.map(({ id }) => id));
  return {
    source,
    body: shownParts({ headers: {}, data: source }, { kind: 'item', list: 'output' }, keeper, { addShown }).data,
  };
}

describe('a body that shows items', () => {
  it('is held until their ids are stored, and then ends', async () => {
    const ids: string[] = [];
    let stored = () => {};
    const { source, body } = showing((shown) => {
      ids.push(...shown);
      return new Promise((resolve) => {
        stored = resolve;
      });
    });
    const chunks: Buffer[] = [];
    const outcome = flow(body, (chunk) => chunks.push(chunk));
    source.push(answerWithItem);
    source.settle('end');
    await new Promise(setImmediate);
    expect([ids, chunks]).to.deep.equal([['msg_1'], []]);
    stored();
    expect(await outcome).to.equal('end');
    expect(Buffer.concat(chunks)).to.deep.equal(answerWithItem);
  });

  it('ends with the cause when what it is sent to throws', async () => {
    const cause = new Error('cannot write');
    const { source, body } = showing(async () => {});
    const outcome = flow(body, () => {
      throw cause;
    });
    source.push(answerWithItem);
    source.settle('end');
    expect(((await outcome) as OutboundError).cause).to.equal(cause);
  });
});

/** What is due with each chunk, and what is left at the end. */
function idsOf(list: 'output' | 'data', chunks: readonly string[]) {
  const items = new AnsweredItems(list);
  const named = (shown: readonly ShownObject[]) =>
    shown.map(({ kind, id }) => (kind === 'item' ? id : `${kind} ${id}`));
  const due = chunks.map((chunk) => named(items.read(Buffer.from(chunk))));
  return { due, rest: named(items.rest()) };
}

const event = (data: object) => `event: x\ndata: ${JSON.stringify(data)}\n\n`;

describe('the ids of the items in an answer', () => {
  const nested = { id: 'no_1', items: [{ id: 'no_2' }] };
  const answer = JSON.stringify({
    id: 'resp_1',
    metadata: { id: 'no_3', output: [{ id: 'no_4' }] },
    text: '"output":[{"id":"no_5"}]',
    output: [
      { id: 'msg_1', content: [nested], note: 'a \\" , "id":"no_6"' },
      { type: 'image_generation_call', nested, id: 'ig_1' },
      { id: 'no way' },
      { id: 7, name: 'id' },
      [{ id: 'no_7' }],
      'id',
    ],
    usage: { id: 'no_8', output: [{ id: 'no_9' }] },
  });

  it('are those of its list and of nothing else, however it is split', () => {
    const expected = ['msg_1', 'ig_1'];
    expect(idsOf('output', [answer]).due).to.deep.equal([expected]);
    for (let i = 1; i < answer.length; i += 1) {
      const { due, rest } = idsOf('output', [answer.slice(0, i), answer.slice(i)]);
      expect(due.flat(), `split at ${i}`).to.deep.equal(expected);
      expect(rest).to.deep.equal([]);
    }
  });

  it('come with those of the containers that they were made in', () => {
    const call = { id: 'ci_1', type: 'code_interpreter_call', container_id: 'cntr_1' };
    const shell = { id: 'sh_1', environment: { type: 'container_reference', container_id: 'cntr_2' } };
    const others = { environment: { type: 'local' }, container_id: null, id: 'msg_1' };
    const expected = ['ci_1', 'container cntr_1', 'sh_1', 'container cntr_2', 'msg_1'];
    expect(idsOf('output', [JSON.stringify({ output: [call, shell, others] })]).due).to.deep.equal([expected]);
    const events = [call, shell, others].map((item) => event({ type: 'response.output_item.done', item }));
    expect(idsOf('output', events).rest).to.deep.equal(expected);
  });

  it('are due with the chunk in which the list ends', () => {
    expect(idsOf('data', ['{"data":[{"id":"a"},', '{"id":"b"}]', ',"has_more":false}']).due).to.deep.equal([
      [],
      ['a', 'b'],
      [],
    ]);
  });

  it('are read also where white space comes first, as from a provider that keeps a connection open', () => {
    expect(idsOf('output', ['\n', ' \r\n', '{"output":[{"id":"a"}]}']).due).to.deep.equal([[], [], ['a']]);
  });

  it('are due before the end of the last event, however large that is', () => {
    const item = event({ type: 'response.output_item.added', item: { id: 'msg_1' } });
    const last = event({ type: 'response.completed', response: { text: 'x'.repeat(100_000) } });
    const { due } = idsOf('output', [item, last.slice(0, 16_000), last.slice(16_000, 90_000), last.slice(90_000)]);
    expect(due).to.deep.equal([[], ['msg_1'], [], []]);
  });

  it('are left when an answer breaks off', () => {
    expect(idsOf('output', ['{"output":[{"id":"a"},{']).rest).to.deep.equal(['a']);
    expect(idsOf('output', ['{"output":[{"id":"a"']).rest).to.deep.equal(['a']);
  });

  it('are due with the last event of a stream, however it is split', () => {
    const parts = [
      event({ type: 'response.created', response: { id: 'resp_1', metadata: { type: 'response.output_item.added' } } }),
      event({ type: 'response.output_item.added', item: { id: 'rs_1' } }),
      event({ type: 'response.output_text.delta', delta: '"type":"response.output_item.added","item":{"id":"no"}' }),
      event({ type: 'response.output_item.added', item: { id: 'msg_1' } }).replaceAll('\n', '\r\n'),
      event({ type: 'response.output_item.done', item: { id: 'msg_1' } }),
    ];
    const last = event({ type: 'response.completed', response: { output: [] } });
    expect(idsOf('output', [...parts, last]).due).to.deep.equal([[], [], [], [], [], ['rs_1', 'msg_1']]);
    const whole = parts.join('') + last;
    for (let i = 1; i < whole.length; i += 1) {
      const { due } = idsOf('output', [whole.slice(0, i), whole.slice(i)]);
      expect(due.flat(), `split at ${i}`).to.deep.equal(['rs_1', 'msg_1']);
    }
    expect(idsOf('output', parts).rest).to.deep.equal(['rs_1', 'msg_1']);
  });
});
