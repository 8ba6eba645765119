import { fileURLToPath } from 'node:url';
import { addRate, rateNames } from './rates.ts';
import * as rows from './rows.ts';
import type { Run } from './run.ts';
import type { Process, Target } from './setup.ts';

interface Candidate {
  readonly name: string;
  readonly sender: Process;
  readonly target: Target;
  readonly userId: string;
}

/** Of this checkout. */
const ownFolder = fileURLToPath(new URL('../../..', import.meta.url));
/** Rounds before those that count, until Node has compiled what is called often. */
const warmUps = 3;

/**
 * What deliveries to one webhook cost this checkout and another one. Two processes of each take turns, so that other load on the
 * machine affects all four alike. Two processes of one checkout differ by up to a tenth: the figures `here / here` show by how much.
 * What the other three cost MongoDB while they wait is counted for whoever has the turn.
 * @param folder of the other checkout, which has been installed and built
 */
export async function compareWith({ setup, notes, quick, newUser }: Run, folder: string): Promise<void> {
  const rounds = quick ? 4 : 12;
  const events = quick ? 1_000 : 2_000;

  async function start(name: string, checkout: string): Promise<Candidate> {
    const sender = await setup.senderFrom(checkout);
    const target = await sender.call<Target>('open');
    await sender.call('start');
    const userId = newUser();
    await rows.subscribe(setup, sender, userId, 1);
    return { name, sender, target, userId };
  }
  const measure = ({ sender, target, userId }: Candidate) =>
    rows.rate(setup, () => setup.usage(sender), target, userId, events, 1);
  const addRatios = (row: string, one: Candidate, other: Candidate) => {
    const [of, to] = [rateNames(one.name), rateNames(other.name)];
    for (const [figure, name] of Object.entries(rateNames(row)))
      notes.addRatio(name, of[figure as keyof typeof of], to[figure as keyof typeof to]);
  };

  const here = await start('here', ownFolder);
  const there = await start('there', folder);
  const thereToo = await start('there in another process', folder);
  const hereToo = await start('here in another process', ownFolder);
  // nobody has two turns in succession, and each is before and after each
  const orders = [
    [here, there, thereToo, hereToo],
    [there, here, hereToo, thereToo],
  ] as const;
  for (let i = 0; i < warmUps; i += 1) for (const candidate of orders[0]) await measure(candidate);

  for (let round = 0; round < rounds; round += 1) {
    for (const candidate of orders[round % 2 === 0 ? 0 : 1]) addRate(notes, candidate.name, await measure(candidate));
    addRatios('here / there', here, there);
    addRatios('here / there', hereToo, thereToo);
    addRatios('here / here', hereToo, here);
  }
  for (const { sender } of [here, there, thereToo, hereToo]) await setup.closed(sender);
}
