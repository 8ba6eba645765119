import { cpus } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveryFigures } from '../../scale/measured.ts';
import type { Process, Setup } from '../deliveries/setup.ts';
import { cpuOf } from '../deliveries/usage.ts';
import type { Gateways } from './gateways.ts';
import type { Members } from './members.ts';
import { timesOf } from './times.ts';

/** What still is to be recorded when the last delivery has arrived belongs to it. Milliseconds. */
const settling = 500;

const cpuOfProcess = ({ child }: Process) => cpuOf(child.pid ?? 0);

/** Time that all cores together have had and spent so far. Milliseconds. */
function coreTimes(): { busy: number; all: number } {
  const times = cpus().map(({ times: { user, nice, sys, irq, idle } }) => ({ busy: user + nice + sys + irq, idle }));
  const busy = times.reduce((sum, one) => sum + one.busy, 0);
  return { busy, all: times.reduce((sum, { idle }) => sum + idle, busy) };
}

interface Turn {
  readonly setup: Setup;
  readonly members: Members;
  readonly gateways: Gateways;
  readonly webhooks: number;
  /** Of each load. */
  readonly seconds: number;
}

/** The top rate, and what a delivery costs at it. */
async function measureCost({ setup, members, gateways, webhooks, seconds }: Turn) {
  const senders = gateways.all.map(({ sender }) => sender);
  async function used() {
    const receiverCpu = await cpuOfProcess(setup.receiver);
    const gatewayCpu = (await Promise.all(senders.map(cpuOfProcess))).reduce((sum, cpu) => sum + cpu, 0);
    const receiverBytes = await setup.receiver.call<number>('bytes');
    return { gatewayCpu, receiverCpu, receiverBytes, ...(await members.usage()) };
  }
  const before = await used();
  const coresBefore = coreTimes();
  const load = await gateways.saturate(webhooks, seconds);
  const cores = coreTimes();
  await sleep(settling);
  const after = await used();
  const count = load.arrivals.length;
  type Used = typeof after;
  const names = Object.keys(after) as (keyof Used)[];
  const each = Object.fromEntries(names.map((name) => [name, (after[name] - before[name]) / count])) as Used;
  const peaks = await Promise.all(senders.map((sender) => sender.call<{ peak: number }>('usage')));
  const rate = count / load.seconds;
  return {
    ...each,
    rate,
    ratePerProcess: rate / senders.length,
    busy: (100 * (cores.busy - coresBefore.busy)) / (cores.all - coresBefore.all),
    peakMemory: Math.max(...peaks.map(({ peak }) => peak)),
  };
}

/** How late deliveries are at a rate that leaves the machine room. */
async function measureLateness({ setup, gateways, webhooks, seconds }: Turn, rate: number) {
  const steady = await gateways.createSteadyLoad(webhooks, rate);
  const load = await steady(seconds);
  return timesOf(setup, load);
}

/** One measurement of gateways that are warm. */
export async function measureTurn(turn: Turn): Promise<DeliveryFigures> {
  const cost = await measureCost(turn);
  return { ...cost, ...(await measureLateness(turn, cost.rate / 2)) };
}
