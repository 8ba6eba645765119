import { expect } from 'chai';
import fc from 'fast-check';
import { EmbeddingRepair } from '../../../../src/proxy/embedding-repair.ts';
import { type EventFilter, EventFramer, isUsageChunk, usageObject } from '../../../../src/proxy/event-framer.ts';

const keepAll: EventFilter = { marks: /(?!)/, pass: (event) => event };

function pass(pieces: Buffer[], filter: EventFilter = keepAll): { out: string; framer: EventFramer } {
  const framer = new EventFramer(filter);
  const out = pieces.flatMap((piece) => framer.push(piece));
  return { out: Buffer.concat([...out, ...framer.end()]).toString('latin1'), framer };
}

function cutAt(bytes: Buffer, points: Iterable<number>): Buffer[] {
  const sorted = [...new Set([0, ...points, bytes.length])].sort((a, b) => a - b);
  return sorted.slice(1).map((end, i) => bytes.subarray(sorted[i], end));
}

const everyByte = (bytes: Buffer) => cutAt(bytes, bytes.keys());

const usage = 'data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}';
const content = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"é😀"}}],"usage":null}';

describe('the framing of an event stream', () => {
  for (const [name, eol] of [
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ] as const) {
    const end = eol + eol;
    const text = `: hello${eol}${content}${end}event: named${eol}data: a${eol}data: b${eol}id: 7${end}${usage}${end}data: [DONE]${end}`;
    const bytes = Buffer.from(text);
    const without = Buffer.from(text.replace(usage + end, '')).toString('latin1');

    it(`passes every byte on, with ${name} line ends, split at every byte`, () => {
      expect(pass([bytes]).out).to.equal(bytes.toString('latin1'));
      expect(pass(everyByte(bytes)).out).to.equal(bytes.toString('latin1'));
    });

    it(`removes only the usage chunk, with ${name} line ends, however the stream is cut`, () => {
      const keep: EventFilter = { marks: usageObject, pass: (event) => (isUsageChunk(event) ? undefined : event) };
      expect(pass([bytes], keep).out).to.equal(without);
      expect(pass(everyByte(bytes), keep).out).to.equal(without);
      for (const i of bytes.keys()) expect(pass(cutAt(bytes, [i]), keep).out, `cut at ${i}`).to.equal(without);
    });
  }

  it('passes any bytes at all on unchanged, however they are cut', () => {
    const bytes = fc
      .array(fc.constantFrom('\r', '\n', ':', 'data: x', 'd', '\r\n', 'é'))
      .map((a) => Buffer.from(a.join('')));
    fc.assert(
      fc.property(bytes, fc.array(fc.nat(60)), (all, points) => {
        const inside = points.filter((point) => point < all.length);
        expect(pass(cutAt(all, inside)).out).to.equal(all.toString('latin1'));
      }),
      { numRuns: 500 },
    );
  });

  it('passes a whole event on at once, and holds half of one', () => {
    const framer = new EventFramer(keepAll);
    expect(Buffer.concat(framer.push(Buffer.from('data: a\n\ndata: b'))).toString()).to.equal('data: a\n\n');
    expect(Buffer.concat(framer.push(Buffer.from('\n\n'))).toString()).to.equal('data: b\n\n');
    expect(framer.events).to.equal(2);
  });

  it('shows the filter a last event that ends without its blank line, and knows the end of a stream by it', () => {
    const filter: EventFilter = { marks: usageObject, pass: (event) => (isUsageChunk(event) ? undefined : event) };
    for (const end of ['', '\n']) {
      expect(pass([Buffer.from(`${content}\n\n${usage}${end}`)], filter).out, 'the usage chunk').to.equal(
        Buffer.from(`${content}\n\n`).toString('latin1'),
      );
      const { out, framer } = pass([Buffer.from(`data: a\n\ndata: [DONE]${end}`)], filter);
      expect([out, framer.done]).to.deep.equal([`data: a\n\ndata: [DONE]${end}`, true]);
    }
  });

  it('passes comments and blank lines on together, in few writes', () => {
    for (const line of ['\n', '\r', '\r\n', ':\n']) {
      const framer = new EventFramer({
        marks: usageObject,
        pass: (event) => (isUsageChunk(event) ? undefined : event),
      });
      const bytes = Buffer.from(`${line.repeat(10_000)}data: a\n\n${line.repeat(10_000)}`);
      const out = framer.push(bytes);
      expect(Buffer.concat(out).equals(bytes), JSON.stringify(line)).to.equal(true);
      expect(out.length).to.be.below(5);
    }
  });

  it('counts no comments among the events, wherever they stand', () => {
    const framer = new EventFramer(keepAll);
    framer.push(Buffer.from(`data: a\n\n${': ping\n\n'.repeat(500)}`));
    framer.push(Buffer.from(': ping\n\ndata: b\n\n'));
    expect(framer.events).to.equal(2);
  });

  it('passes a comment on at once', () => {
    const framer = new EventFramer(keepAll);
    expect(Buffer.concat(framer.push(Buffer.from(': keep-alive\n'))).toString()).to.equal(': keep-alive\n');
  });

  it('passes the pieces of an event of 1 MB on as they come', () => {
    const framer = new EventFramer(keepAll);
    const chunk = Buffer.alloc(64 * 1024, 'x');
    expect(framer.push(Buffer.from('data: '))).to.deep.equal([]);
    for (let i = 0; i < 16; i += 1) {
      const out = framer.push(chunk);
      expect(out.at(-1)?.length).to.equal(chunk.length);
      expect(framer.insideEvent).to.equal(true);
    }
    framer.push(Buffer.from('\n\n'));
    expect(framer.insideEvent).to.equal(false);
  });

  it('removes no chunk that has choices or an error, has no usage or is not JSON', () => {
    for (const data of [
      '{"choices":[{"index":0}],"usage":{"total_tokens":1}}',
      '{"choices":[],"usage":null}',
      '{"choices":[],"prompt_filter_results":[]}',
      '{"usage":{"total_tokens":1},"error":{"message":"no"}}',
      '"usage"',
      'not JSON "usage"',
      'null "usage"',
    ]) {
      expect(isUsageChunk(Buffer.from(`data: ${data}\n\n`)), data).to.equal(false);
    }
  });
});

function repair(text: string, size = text.length): string {
  const repairing = new EmbeddingRepair();
  const bytes = Buffer.from(text);
  const out: Buffer[] = [];
  for (let i = 0; i < bytes.length; i += size) out.push(...repairing.push(bytes.subarray(i, i + size)));
  return Buffer.concat([...out, ...repairing.end()]).toString();
}

describe('the repair of embeddings', () => {
  const floats =
    '{"object":"list","data":[{"object":"embedding","index":0,"embedding": [0.25, -0.5,1e-1]},{"object" : "embedding","embedding":[]}],"model":"é"}';
  const repaired =
    '{"object":"list","data":[{"object":"embedding","index":0,"embedding": "AACAPgAAAL/NzMw9"},{"object" : "embedding","embedding":""}],"model":"é"}';

  it('turns lists of numbers into base64 and leaves every other byte', () => {
    expect(repair(floats)).to.equal(repaired);
  });

  it('gives the same bytes however its input is cut', () => {
    for (let size = 1; size < floats.length; size += 1)
      expect(repair(floats, size), `pieces of ${size}`).to.equal(repaired);
  });

  it('reads 60,000 numbers byte by byte in less than 2 seconds of CPU time', () => {
    const long = `{"embedding":[${'0.25,'.repeat(60_000)}0.25]}`;
    const began = process.cpuUsage();
    const inPieces = repair(long, 1);
    const { user, system } = process.cpuUsage(began);
    expect(inPieces).to.equal(repair(long));
    expect((user + system) / 1e6, 'CPU seconds').to.be.below(2);
  });

  it('leaves base64 alone', () => {
    for (const size of [1, 5, 1000]) expect(repair(repaired, size)).to.equal(repaired);
  });

  it('fails on a vector that is no list of numbers or too large', () => {
    for (const vector of ['[1,}]', '[1,null]', '["1"]', '[[1],[2]]']) {
      expect(() => repair(`{"embedding":${vector}}`), vector).to.throw(/no list of numbers/);
    }
    expect(() => repair(`{"embedding":[${'1,'.repeat(1_000_000)}`)).to.throw(/too large/);
  });
});
