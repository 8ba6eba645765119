import { expect } from 'chai';
import { EmbeddingRepair } from '../../../../src/proxy/embedding-repair.ts';

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
