import { expect } from 'chai';
import { AnsweredItems, type ShownObject } from '../../src/stored/answer-ids.ts';

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
