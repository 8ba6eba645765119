import { expect } from 'chai';
import { GatewayError } from '../../../src/index.ts';
import { measureAgain } from '../../support/measure-again.ts';
import { readAsGateway } from './form-judges/gateway-reading.ts';

const size = 32 * 1024 * 1024;

/** What reading a form takes: milliseconds of CPU in all and at most in one turn of the event loop, and bytes held. */
interface Cost {
  readonly cpu: number;
  readonly turn: number;
  readonly memory: number;
  /** `accepted`, or the code of the error. */
  readonly outcome: string;
}

const cpuNow = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

const heldNow = () => {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};

/** Measures by CPU time, so that a busy machine changes nothing. */
async function costOf(run: () => Promise<unknown>): Promise<Cost> {
  const begun = cpuNow();
  const held = heldNow();
  let last = begun;
  let turn = 0;
  let memory = 0;
  let ended = false;
  const look = () => {
    const now = cpuNow();
    turn = Math.max(turn, now - last);
    last = now;
    memory = Math.max(memory, heldNow() - held);
    if (!ended) setImmediate(look);
  };
  setImmediate(look);
  const outcome = await run().then(
    () => 'accepted',
    (error) => (error instanceof GatewayError ? error.code : String(error)),
  );
  ended = true;
  look();
  return { cpu: cpuNow() - begun, turn, memory, outcome };
}

function withFile(boundary: string, piece: string | Buffer) {
  const disposition = 'Content-Disposition: form-data; name=';
  const start = `--${boundary}\r\n${disposition}"image"; filename="a.png"\r\n\r\n`;
  const end = `\r\n--${boundary}\r\n${disposition}"prompt"\r\n\r\nNight\r\n--${boundary}--\r\n`;
  const body = Buffer.concat([Buffer.from(start), Buffer.alloc(size, piece), Buffer.from(end)]);
  return { type: `multipart/form-data; boundary=${boundary}`, body };
}

function repeated(part: string, end = '--b0undary--') {
  const count = Math.min(100_000, Math.floor(size / part.length));
  return { type: 'multipart/form-data; boundary=b0undary', body: Buffer.from(part.repeat(count) + end) };
}

const field = (head: string) => `--b0undary\r\nContent-Disposition: form-data; ${head}\r\n\r\n\r\n`;
const long = 'a'.repeat(69);
const cases = {
  'a file of zeros': withFile('x'.repeat(70), Buffer.alloc(1)),
  'nothing but nearly-boundaries': withFile(`${long}b`, `\r\n--${long}`),
  'text that repeats most of a long boundary': withFile(`${long}b`, 'a'),
  'text that repeats half of a short boundary': withFile('aaabaaa', 'aaacaaa'),
  'text that repeats the first of two characters': withFile('ab', 'a'),
  'a prompt of 32 MiB': {
    type: 'multipart/form-data; boundary=b0undary',
    body: Buffer.from(`${field('name="prompt"').slice(0, -2)}${'é'.repeat(size / 2)}\r\n--b0undary--`),
  },
  'a model of 32 MiB': {
    type: 'multipart/form-data; boundary=b0undary',
    body: Buffer.from(`${field('name="model"').slice(0, -2)}${'m'.repeat(size)}\r\n--b0undary--`),
  },
  '100,000 parts': repeated(field('name="a"')),
  '1,000 parts of 32 KiB': repeated(`${field('name="a"')}${'b0undar'.repeat(4_600)}\r\n`, ''),
  'heads of 8 KiB': repeated(field(`name="a"; filename="${'\\'.repeat(8_000)}"`)),
  'a head of 32 MiB': repeated(`--b0undary\r\nContent-Type: ${'a '.repeat(size / 2 - 100)}`),
  'a name of nothing but percent signs': repeated(field(`name="${'%'.repeat(256)}"`)),
};

const outcomes: Readonly<Record<keyof typeof cases, string>> = {
  'a file of zeros': 'accepted',
  'nothing but nearly-boundaries': 'accepted',
  'text that repeats most of a long boundary': 'accepted',
  'text that repeats half of a short boundary': 'accepted',
  'text that repeats the first of two characters': 'accepted',
  'a prompt of 32 MiB': 'missing_required_parameter',
  'a model of 32 MiB': 'invalid_value',
  '100,000 parts': 'invalid_form',
  '1,000 parts of 32 KiB': 'invalid_form',
  'heads of 8 KiB': 'invalid_form',
  'a head of 32 MiB': 'invalid_form',
  'a name of nothing but percent signs': 'invalid_form',
};

describe('a form of 32 MiB', () => {
  for (const [title, form] of Object.entries(cases)) {
    it(`costs little CPU time and memory, and does not block the event loop: ${title}`, async () => {
      const most = { cpu: 500, turn: 100, memory: form.body.length + 8 * 1024 * 1024 };
      const { cpu, turn, memory } = await measureAgain(
        async () => {
          const { outcome, ...cost } = await costOf(() => readAsGateway(form));
          expect(outcome).to.equal(outcomes[title as keyof typeof cases]);
          return cost;
        },
        (cost) => cost.cpu < most.cpu && cost.turn < most.turn && cost.memory < most.memory,
      );
      expect(cpu, 'CPU').to.be.lessThan(most.cpu);
      expect(turn, 'CPU in one turn').to.be.lessThan(most.turn);
      expect(memory, 'memory beside the body').to.be.lessThan(most.memory);
    });
  }
});
