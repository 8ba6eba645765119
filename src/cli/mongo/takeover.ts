import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Mongod, type MongodOptions, MongodStartError, startMongod } from './mongod.ts';
import { runningRecord } from './record.ts';

/** How long a left-over mongod can take to end on its own: its guardian needs about a second. */
const gracePeriod = 5_000;
const maxWait = 30_000;

/** mongod writes its pid into the file it holds the lock on. */
async function holderOf(dbPath: string): Promise<number | undefined> {
  const pid = Number(await readFile(join(dbPath, 'mongod.lock'), 'utf8').catch(() => ''));
  return pid > 0 ? pid : undefined;
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM');
  } catch {
    // it has ended in the meantime
  }
}

/**
 * Starts a mongod on data that a mongod of a killed gateway may still hold: waits for that one to end,
 * and ends it if it does not. Two never run on the same data: mongod's own lock decides.
 * @throws Error when another living gateway runs on this data
 */
export async function startOnData(options: MongodOptions, dataDir: string): Promise<Mongod> {
  const startedAt = Date.now();
  let signalledPid: number | undefined;
  for (;;) {
    try {
      return await startMongod(options);
    } catch (error) {
      if (!(error instanceof MongodStartError) || error.kind === 'other' || Date.now() - startedAt > maxWait)
        throw error;
      if (error.kind === 'data_in_use') signalledPid = await makeRoom(options.dbPath, dataDir, startedAt, signalledPid);
      await sleep(200);
    }
  }
}

async function makeRoom(
  dbPath: string,
  dataDir: string,
  startedAt: number,
  signalledPid?: number,
): Promise<number | undefined> {
  const running = await runningRecord(dataDir);
  if (running) {
    throw new Error(`${dataDir} is in use by process ${running.pid}. Stop that one, or choose another DATA_DIR`);
  }
  const holder = await holderOf(dbPath);
  if (!holder || holder === signalledPid || Date.now() - startedAt < gracePeriod) return signalledPid;
  endProcess(holder);
  return holder;
}
