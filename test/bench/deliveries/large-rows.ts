import { subscribeMany, wideFanOut } from './large.ts';
import { pendingDeliveries } from './pending.ts';
import { type Groups, type Run, thousands } from './run.ts';

/** Very many webhooks, and very many deliveries. */
export function largeRows({ setup, notes, quick, newUser }: Run): Groups {
  /** Accounts with as many webhooks are made once. */
  let wideUsers: Promise<readonly [string, string]> | undefined;
  async function makeWideUsers(): Promise<readonly [string, string]> {
    const [thousand, tenThousand] = [newUser(), newUser()];
    await subscribeMany(setup, thousand, 1_000);
    await subscribeMany(setup, tenThousand, 10_000);
    return [thousand, tenThousand];
  }

  async function wide(): Promise<void> {
    wideUsers ??= makeWideUsers();
    const { narrow, wide } = await wideFanOut(setup, ...(await wideUsers), newUser);
    notes.add('one event to 10,000 webhooks, published in', 's', wide.publish);
    notes.add('one event to 10,000 webhooks, delivered in', 's', wide.deliver);
    notes.add('one event to 10,000 webhooks, its document', 'kB', wide.document);
    notes.add('one event to 1,000 webhooks, memory of the sender grew by', 'MB', narrow.memory);
    notes.add('one event to 10,000 webhooks, memory of the sender grew by', 'MB', wide.memory);
  }

  const many = quick ? 100_000 : 1_000_000;
  let measurePending: ReturnType<typeof pendingDeliveries> | undefined;

  async function pending(): Promise<void> {
    measurePending ??= pendingDeliveries(setup, many);
    const found = await (await measurePending)(quick ? 9 : 15);
    notes.add('claiming 200 that are due, 1,000 pending for later', 'ms', found.few);
    notes.add(`claiming 200 that are due, ${thousands(many)} pending for later`, 'ms', found.many);
    notes.add(`claiming what is due, ${thousands(many)} pending / 1,000`, 'times', found.many / found.few);
    notes.add('index keys read to find them, in both alike', '', found.keys);
  }

  return { wide, pending };
}
