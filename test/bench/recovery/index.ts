import { setTimeout as sleep } from 'node:timers/promises';
import { storeEnded } from '../../deliveries/redeliver/recoveries/missed.ts';
import { showHelp } from '../arguments.ts';
import { openSetup, type Published } from '../deliveries/setup.ts';
import { machineOf } from '../origin.ts';
import { median, percentile, report } from '../report.ts';

/** What new events of a webhook wait while what it missed is sent again beside them, and what they wait otherwise. */
showHelp('bench:recovery', { '--quick': 'a recovery of 500 in place of 2,000' });
const quick = process.argv.includes('--quick');
const missed = quick ? 500 : 2_000;
const perSecond = 50;
/** New events of one spell, whose p99 is looked at by itself: a moment in which the machine did something else spoils one. */
const perSpell = 125;
const quietSpells = quick ? 4 : 16;
const userId = 'usr_bench';

const setup = await openSetup();
const sender = await setup.sender();
const target = await sender.call<{ port: number; key: string }>('open');
await sender.call('start');
await sender.call('subscribe', userId, setup.urls('recovered', 1), setup.secret);
const webhook = await setup.connection.collection<{ _id: string }>('gateway_webhooks').findOne({ userId });
const webhookId = webhook?._id ?? '';

async function ask(path: string, body?: object) {
  const response = await fetch(`http://127.0.0.1:${target.port}/v1/webhooks/${webhookId}/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${target.key}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  return (await response.json()) as { id: string; state: string; delivered: number };
}

const spell = () => setup.load.call<Published[]>('steadily', target, userId, perSpell, perSecond);

await spell(); // until everything is warm
await setup.arrivals(perSpell);
const quiet: Published[][] = [];
for (let i = 0; i < quietSpells; i += 1) quiet.push(await spell());

await storeEnded(setup.connection, webhookId, Array(missed).fill('failed'), userId);
const { id } = await ask('recover', { since: new Date(Date.now() - 3_600_000).toISOString() });
const busy: Published[][] = [];
while ((await ask(`recoveries/${id}`)).state === 'running') busy.push(await spell());
await sleep(300);
const { delivered } = await ask(`recoveries/${id}`);
const arrivals = await setup.arrivals(missed + (quiet.length + busy.length) * perSpell);
await sender.call('close');
await setup.close();
if (delivered !== missed) throw new Error(`${delivered} of ${missed} were recovered`);

const arrivedAt = new Map(arrivals.map((one) => [one.id, one.at]));
const waits = (spells: Published[][], p: number) =>
  spells.map((events) =>
    percentile(
      events.map((event) => (arrivedAt.get(event.id) ?? Number.NaN) - event.sent),
      p,
    ),
  );
const at = `published to first byte at ${perSecond}/s`;
report(`New events beside a recovery of ${missed}, spells of ${perSpell} events, on ${machineOf()}`, [
  { name: `${at}, alone, p50`, unit: 'ms', values: waits(quiet, 50) },
  { name: `${at}, beside the recovery, p50`, unit: 'ms', values: waits(busy, 50) },
  { name: `${at}, alone, p99`, unit: 'ms', values: waits(quiet, 99) },
  { name: `${at}, beside the recovery, p99`, unit: 'ms', values: waits(busy, 99) },
  { name: 'the second p99 by the first', unit: '', values: [median(waits(busy, 99)) / median(waits(quiet, 99))] },
]);
