import { Writable } from 'node:stream';
import { expect } from 'chai';
import pino from 'pino';
import { faultTolerant } from '../../src/options/logger.ts';

describe("a host's logger", () => {
  it('may be pino, or a child of it, which gets the fields as its own', () => {
    const lines: Record<string, unknown>[] = [];
    const sink = new Writable({
      write(chunk, _encoding, done) {
        lines.push(JSON.parse(String(chunk)));
        done();
      },
    });
    const logger = pino(sink);
    for (const given of [logger, logger.child({ part: 'gateway' })]) {
      faultTolerant(given).warn('an upstream fails', { upstream: 'openai' });
      faultTolerant(given).error('nothing more');
    }
    expect(lines.map(({ msg, level, upstream, part }) => ({ msg, level, upstream, part }))).to.deep.equal([
      { msg: 'an upstream fails', level: 40, upstream: 'openai', part: undefined },
      { msg: 'nothing more', level: 50, upstream: undefined, part: undefined },
      { msg: 'an upstream fails', level: 40, upstream: 'openai', part: 'gateway' },
      { msg: 'nothing more', level: 50, upstream: undefined, part: 'gateway' },
    ]);
  });

  it('gets the message first otherwise', () => {
    const calls: unknown[][] = [];
    const record = (...args: unknown[]) => void calls.push(args);
    faultTolerant({ info: record, warn: record, error: record }).info('ready', { port: 3000 });
    expect(calls).to.deep.equal([['ready', { port: 3000 }]]);
  });
});
