import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { freePorts } from '../../support/servers/free-ports.ts';
import { CommandProcess } from '../command.ts';

const kills = 3;
const clients = 16;
/** Far longer than an answer takes on a busy machine. Milliseconds. */
const maxWait = 10_000;

interface Request {
  readonly startedAt: number;
  readonly endedAt: number;
  /** A status, or how it failed. */
  readonly outcome: string;
}

/** Sends a request on a connection of its own, and says how it went. */
function send(url: string): Promise<Request> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const end = (outcome: string) => resolve({ startedAt, endedAt: performance.now(), outcome });
    const request = get(url, { agent: new Agent(), timeout: maxWait }, (response) => {
      response.resume().on('end', () => end(`${response.statusCode}`));
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}

describe('WORKERS=2, one of which is killed again and again', () => {
  let gateway: CommandProcess;

  before(async () => {
    // a port that is known beforehand is shared from the start of each process on
    const port = await freePorts(1);
    gateway = new CommandProcess(['start'], {
      ...{ MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: `${port}`, WORKERS: '2', LOG_LEVEL: 'silent' },
    });
  });
  after(() => gateway.end('SIGKILL'));

  it('answers every request that comes while it starts the process again', async () => {
    const [, baseUrl] = await gateway.until(/^Base URL: (\S+)$/m);
    await gateway.until(/^Process 2 serves/m);
    const requests: Request[] = [];
    let isOver = false;
    async function keepSending(): Promise<void> {
      while (!isOver) requests.push(await send(new URL('/healthz', baseUrl).href));
    }
    const sending = Promise.all(Array.from({ length: clients }, keepSending));

    // what was sent to the killed process, until the other one knows that it has ended
    const lost: { readonly from: number; readonly to: number }[] = [];
    for (let kill = 1; kill <= kills; kill += 1) {
      const pids = [...gateway.stdout.matchAll(/^Process 2 serves \(pid (\d+)\)$/gm)].map(([, pid]) => Number(pid));
      const from = performance.now();
      process.kill(pids.at(-1) as number, 'SIGKILL');
      await gateway.until(new RegExp(`(^Process 2 ended[\\s\\S]*){${kill}}`, 'm'));
      lost.push({ from, to: performance.now() });
      await gateway.until(new RegExp(`(^Process 2 ended[\\s\\S]*){${kill}}^Process 2 serves`, 'm'));
      // requests go to the new process for a while
      await sleep(200);
    }
    isOver = true;
    await sending;
    const wereInFlight = ({ startedAt, endedAt }: Request) =>
      lost.some(({ from, to }) => startedAt <= to && endedAt >= from);
    const others = requests.filter((request) => !wereInFlight(request));
    expect(others.length).to.be.above(100 * kills);
    expect(others.filter(({ outcome }) => outcome !== '200')).to.deep.equal([]);
  });
});
