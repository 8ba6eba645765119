import * as rows from './rows.ts';
import type { Run } from './run.ts';
import type { Process, Target } from './setup.ts';

const units = {
  rate: 'deliveries/s',
  cpu: 'ms a delivery',
  mongod: 'ms a delivery',
  operations: 'a delivery',
  requests: 'a delivery',
} as const;
type What = keyof typeof units;
const all = Object.keys(units) as What[];

interface Sender {
  readonly name: string;
  readonly process: Process;
  readonly target: Target;
  readonly userId: string;
}

/** Rounds before those that count, until Node has compiled what is called often. */
const warmUps = 3;

/**
 * What deliveries to one webhook cost this checkout and another one. Two processes of each take turns, the last one first in every
 * second round, so that what the machine does meanwhile meets all of them. Two processes of one checkout differ by up to a tenth: the
 * figures `here / here` show by how much.
 * @param folder of the other checkout, which has been installed and built
 */
export async function compareWith({ setup, notes, quick, newUser }: Run, folder: string): Promise<void> {
  const rounds = quick ? 3 : 12;
  const events = quick ? 1_000 : 2_000;

  async function start(name: string, checkout?: string): Promise<Sender> {
    const process = await setup.senderOf(checkout);
    const target = await process.call<Target>('open');
    await process.call('start');
    const userId = newUser();
    await rows.subscribe(setup, process, userId, 1);
    return { name, process, target, userId };
  }
  const measure = ({ process, target, userId }: Sender) =>
    rows.rate(setup, () => setup.usage(process), target, userId, events, 1);
  const nameOf = ({ name }: Sender, what: What) => `${name}: ${what}`;

  const here = await start('here');
  const there = await start('there', folder);
  const thereToo = await start('there, another process', folder);
  const hereToo = await start('here, another process');
  const senders = [here, there, thereToo, hereToo];
  for (let i = 0; i < warmUps; i += 1) for (const sender of senders) await measure(sender);

  for (let round = 0; round < rounds; round += 1) {
    for (const sender of round % 2 === 0 ? senders : senders.toReversed()) {
      const costs = await measure(sender);
      for (const what of all) notes.add(nameOf(sender, what), units[what], costs[what]);
    }
    for (const what of all) {
      notes.addRatio(`${what}, here / there`, nameOf(here, what), nameOf(there, what));
      notes.addRatio(`${what}, here / there`, nameOf(hereToo, what), nameOf(thereToo, what));
      notes.addRatio(`${what}, here / here`, nameOf(hereToo, what), nameOf(here, what));
    }
  }
  for (const { process } of senders) await setup.closed(process);
}
