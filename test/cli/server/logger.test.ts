import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { createLogger, type LogSettings } from '../../../src/cli/server/logger.ts';
import { faultTolerant } from '../../../src/options/logger.ts';

/** What is written of three lines. */
function written(settings: LogSettings): string[] {
  const lines: string[] = [];
  const logger = faultTolerant(createLogger(settings, { write: (line) => void lines.push(line) }));
  logger.info('request', { requestId: 'req_1', status: 200, model: 'a "b"\u001b[2J' });
  logger.warn('an upstream fails', { upstream: 'openai' });
  logger.error('nothing more');
  return lines;
}

describe('The log of the stand-alone server', () => {
  it('is JSON, a line an object, with the time in ISO 8601 and the level by name', () => {
    const lines = written({ level: 'info' }).map((line) => JSON.parse(line));
    expect(lines).to.have.length(3);
    expect(lines[0]).to.include({ level: 'info', msg: 'request', requestId: 'req_1', status: 200, pid: process.pid });
    expect(lines[0].time).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  it('is readable text in a terminal, with control characters escaped', () => {
    const lines = written({ level: 'info', readable: { colours: false } });
    expect(lines[0]).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info /);
    expect(lines.map((line) => line.slice('2026-01-31 18:05:09 '.length))).to.deep.equal(
      [
        String.raw`info  request requestId=req_1 status=200 model="a \"b\"\u001b[2J"`,
        'warn  an upstream fails upstream=openai',
        'error nothing more',
      ].map((line) => `${line}\n`),
    );
    expect(written({ level: 'info', readable: { colours: true } })[2]).to.include('\u001b[31merror\u001b[39m');
  });

  it('leaves out the lines that the start prints, and no other', () => {
    const lines = written({ level: 'info', readable: { colours: false }, printedField: 'upstream' });
    expect(lines.map((line) => line.split(' ')[2])).to.deep.equal(['info', 'error']);
  });

  for (const [level, count] of [
    ['warn', 2],
    ['error', 1],
    ['silent', 0],
  ] as const) {
    it(`with LOG_LEVEL ${level} contains no lower level`, () => {
      expect(written({ level })).to.have.length(count);
    });
  }

  it('loses lines but does not end the process when the disk is full', async function () {
    if (!existsSync('/dev/full')) this.skip();
    const module = fileURLToPath(new URL('../../../src/cli/server/logger.ts', import.meta.url));
    const script = `
      import { createLogger } from ${JSON.stringify(module)};
      const logger = createLogger({ level: 'info' });
      for (let i = 0; i < 100; i += 1) logger.info('request');
      setTimeout(() => {
        logger.info('request');
        console.log('alive');
      }, 100);`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', openSync('/dev/full', 'w')],
    });
    let printed = '';
    child.stdout?.on('data', (chunk) => {
      printed += chunk;
    });
    const hung = setTimeout(() => child.kill('SIGKILL'), 50_000);
    const [code, signal] = await once(child, 'exit');
    clearTimeout(hung);
    expect({ printed, code, signal }).to.deep.equal({ printed: 'alive\n', code: 0, signal: null });
  });
});
