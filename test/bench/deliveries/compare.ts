import { fileURLToPath } from 'node:url';
import { addRate, rateNames } from './rates.ts';
import * as rows from './rows.ts';
import type { Run } from './run.ts';
import type { Process, Target } from './setup.ts';

interface Candidate {
  readonly name: string;
  readonly sender: Process;
  readonly target: Target;
}

/** Of this checkout. */
const ownFolder = fileURLToPath(new URL('../../..', import.meta.url));
/** Rounds before those that count, until Node has compiled what is called often. */
const warmUps = 3;
const compared = [
  { row: 'one webhook', webhooks: 1, events: 2_000, quickly: 1_000 },
  { row: 'fan-out to 10', webhooks: 10, events: 400, quickly: 100 },
] as const;

/**
 * What deliveries cost this checkout and another one, with one webhook and with ten. Two processes of each take turns, so that other
 * load on the machine affects all four alike. Two processes of one checkout differ by up to a tenth: the figures `here / here` show by
 * how much. What the other three cost MongoDB while they wait is counted for whoever has the turn.
 * @param folder of the other checkout, which has been installed and built
 */
export async function compareWith({ setup, notes, quick, newUser }: Run, folder: string): Promise<void> {
  const rounds = quick ? 4 : 12;

  async function start(name: string, checkout: string): Promise<Candidate> {
    const sender = await setup.senderFrom(checkout);
    const target = await sender.call<Target>('open');
    await sender.call('start');
    return { name, sender, target };
  }
  const here = await start('here', ownFolder);
  const there = await start('there', folder);
  const thereToo = await start('there in another process', folder);
  const hereToo = await start('here in another process', ownFolder);
  // nobody has two turns in succession, and each is before and after each
  const orders = [
    [here, there, thereToo, hereToo],
    [there, here, hereToo, thereToo],
  ] as const;

  for (const { row, webhooks, events, quickly } of compared) {
    const userId = newUser();
    for (const { sender } of orders[0]) await rows.subscribe(setup, sender, userId, webhooks);
    const measure = ({ sender, target }: Candidate) =>
      rows.rate(setup, () => setup.usage(sender), target, userId, quick ? quickly : events, webhooks);
    const named = ({ name }: Candidate) => `${row}, ${name}`;
    const addRatios = (compares: string, one: Candidate, other: Candidate) => {
      const [of, to] = [rateNames(named(one)), rateNames(named(other))];
      for (const [figure, name] of Object.entries(rateNames(`${row}, ${compares}`)))
        notes.addRatio(name, of[figure as keyof typeof of], to[figure as keyof typeof to]);
    };
    for (let i = 0; i < warmUps; i += 1) for (const candidate of orders[0]) await measure(candidate);
    for (let round = 0; round < rounds; round += 1) {
      for (const candidate of orders[round % 2 === 0 ? 0 : 1])
        addRate(notes, named(candidate), await measure(candidate));
      addRatios('here / there', here, there);
      addRatios('here / there', hereToo, thereToo);
      addRatios('here / here', hereToo, here);
    }
  }
  for (const { sender } of orders[0]) await setup.closed(sender);
}
