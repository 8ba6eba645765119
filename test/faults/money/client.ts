import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.ts';
import type { WorkerAddress } from '../workers/workers.ts';

/** What is sent again and again, and how long after the time before. Milliseconds. */
export interface Sender {
  readonly gap: number;
  /** Must not reject. */
  readonly send: (to: WorkerAddress) => Promise<void>;
}

export interface ClientDeps {
  readonly addresses: () => readonly WorkerAddress[];
  readonly random: Random;
}

/** A client that sends to any of the workers that are there, and waits for no answer. */
export function startClient(senders: readonly Sender[], { addresses, random }: ClientDeps) {
  const underWay = new Set<Promise<void>>();
  let isOpen = true;
  let isPaused = false;

  async function run({ gap, send }: Sender): Promise<void> {
    while (isOpen) {
      const ready = addresses();
      if (ready.length > 0 && !isPaused) {
        const sending = send(random.pick(ready)).finally(() => underWay.delete(sending));
        underWay.add(sending);
      }
      await sleep(gap);
    }
  }

  /** Resolves when everything that was sent has ended. */
  async function pause(): Promise<void> {
    isPaused = true;
    await Promise.all(underWay);
  }

  const running = senders.map(run);
  return {
    pause,
    resume() {
      isPaused = false;
    },
    /** Resolves as `pause` does. */
    async stop() {
      isOpen = false;
      await Promise.all(running);
      await pause();
    },
  };
}
