import { expect } from 'chai';
import { charactersIn, estimateSeconds } from '../../../src/proxy/model-body.ts';

function count(json: string): number {
  const bytes = Buffer.from(json);
  return charactersIn(bytes, { start: 0, end: bytes.length });
}

describe('the characters of a text that is spoken', () => {
  for (const [json, characters] of [
    ['""', 0],
    ['"abc"', 3],
    ['"é€😀"', 3],
    [String.raw`"\"\\\n\/"`, 4],
    [String.raw`"\u00e9\u20AC"`, 2],
    [String.raw`"\ud83d\ude00\uD83D\uDE00"`, 2],
    [String.raw`"\ud83d"`, 1],
    [String.raw`"\ude00\ude00"`, 2],
    [String.raw`"\ud83d\ude00\ude00"`, 2],
    [String.raw`"\ud83dx\ude00"`, 3],
    [String.raw`"\\ud83d"`, 6],
  ] as const) {
    it(`of ${json} are ${characters}`, () => {
      expect(count(json)).to.equal(characters);
      // a lone half has no character of its own in JavaScript either
      expect([...(JSON.parse(json) as string)]).to.have.length(characters);
    });
  }
});

describe('the length of a recording', () => {
  it('is estimated by its size, and that of a WAV file by its header', () => {
    expect(estimateSeconds(Buffer.alloc(0))).to.equal(0);
    expect(estimateSeconds(Buffer.alloc(8_001))).to.equal(2);
    const wav = Buffer.alloc(96_000);
    wav.write('RIFF....WAVEfmt ', 'latin1');
    wav.writeUInt16LE(1, 20);
    wav.writeUInt16LE(2, 22);
    wav.writeUInt32LE(48_000, 24);
    wav.writeUInt16LE(4, 32);
    wav.writeUInt16LE(16, 34);
    // a second is 192,000 bytes
    expect(estimateSeconds(wav)).to.equal(1);
    wav.writeUInt16LE(65_535, 32);
    expect(estimateSeconds(wav), 'by a header that does not fit itself').to.equal(12);
    wav.writeUInt16LE(4, 32);
    wav.writeUInt16LE(0x55, 20);
    expect(estimateSeconds(wav), 'of compressed samples').to.equal(12);
    wav.writeUInt16LE(1, 20);
    wav.writeUInt32LE(0, 24);
    expect(estimateSeconds(wav)).to.equal(12);
  });
});
