import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { firstDelivery } from '../../src/deliveries/fan-out.ts';
import { fakeWebhooks } from './gateway.ts';
import { createCheck } from './interleavings-check.ts';
import { DeliveryModel, type ModelDelivery, maxAttempts } from './interleavings-model.ts';
import { createProcesses, type LiveAttempt } from './interleavings-processes.ts';
import type { TestReceiver } from './receiver.ts';

/** What may happen next, and how often it does beside the others. */
export const kinds = {
  publish: 2,
  sweep: 4,
  'two sweeps': 2,
  'event lapses': 3,
  'attempt lapses': 4,
  claim: 4,
  'two claims': 1,
  send: 5,
  answer: 6,
  'give back': 1,
  'store slow': 1,
  renew: 1,
  pause: 1,
  resume: 1,
  delete: 1,
} as const;

export interface Step {
  readonly kind: keyof typeof kinds;
  readonly process: number;
  /** Taken modulo what there is to pick from. */
  readonly pick: number;
  /** What a receiver answers. */
  readonly ok: boolean;
  readonly hasRoom: boolean;
  readonly isWorking: boolean;
}

const mostEvents = 3;
/** The process that does what is left. */
const survivor = 3;
/** It takes no more rounds than each attempt a claim. */
const mostRounds = 2 * maxAttempts;
const past = new Date(0);

/** @param prefix of its collections */
export function createRun(connection: Connection, prefix: string, receiver: TestReceiver) {
  const webhooks = fakeWebhooks();
  const world = createProcesses(connection, prefix, webhooks, receiver);
  const { made, processes } = world;
  const model = new DeliveryModel();
  const check = createCheck(world, model);
  const { checked } = check;
  /** Deliveries of which a receiver has accepted one. */
  const accepted = new Set<string>();
  for (let i = 0; i < 2; i += 1) model.webhooks.set(webhooks.add(receiver.url), 'active');

  const begunBy = ({ serial, process, claim }: LiveAttempt) => ({ serial, process, deliveryId: claim.delivery._id });
  const pickOf = <T>(items: Iterable<T>, pick: number): T | undefined => {
    const all = [...items];
    return all[pick % all.length];
  };
  const live = () => [...model.attempts.values()];
  const isSent = ({ serial }: { serial: number }) => made[serial]?.answer !== undefined;
  const processOf = (n: number) => processes[n] ?? expect.fail(`there is no process ${n}`);

  async function publish({ process, hasRoom, isWorking }: Step): Promise<void> {
    const { length } = made;
    const event = await processOf(process).publish({ hasRoom, isWorking });
    if (!event) expect.fail('the event was not stored');
    const targets = event.targets.map((id) => [firstDelivery(event, id, maxAttempts)._id, id] as const);
    const lease = isWorking ? (hasRoom ? 'begun' : 'stored') : 'none';
    const begun = made.slice(length).map(begunBy);
    expect(begun.map(({ deliveryId }) => deliveryId)).to.deep.equal(lease === 'begun' ? targets.map(([id]) => id) : []);
    model.publish(event._id, new Map(targets), lease, begun);
  }

  async function sweep(sweepers: readonly number[], hasRoom: boolean): Promise<void> {
    const free = model.free();
    const { length } = made;
    const ids = [...model.events.keys()];
    const taken = await Promise.all(sweepers.map((n) => processOf(n).sweep(ids, { hasRoom, isWorking: true })));
    expect(taken.flat().sort(), 'each event that nobody has is taken once').to.deep.equal(
      free.map(({ id }) => id).sort(),
    );
    for (const event of free) {
      const process = sweepers[taken.findIndex((some) => some.includes(event.id))] as number;
      const begun = made.slice(length).map(begunBy);
      const ofEvent = begun.filter(({ deliveryId }) => event.deliveries.includes(deliveryId));
      model.take(event, process, hasRoom, ofEvent);
    }
    for (const attempt of made.slice(length)) {
      expect(attempt.ready !== null, 'there is something to send').to.equal(model.attempts.has(attempt.serial));
    }
  }

  async function claim(delivery: ModelDelivery, claimers: readonly number[]): Promise<void> {
    const { length } = made;
    const document = check.documents().get(delivery.id);
    if (!document) return;
    const ready = await Promise.all(claimers.map((n) => processOf(n).claim(document)));
    const claimed = made.slice(length);
    expect(claimed, 'it is claimed once, if it can be').to.have.length(model.canClaim(delivery) ? 1 : 0);
    const [attempt] = claimed;
    if (!attempt) return;
    attempt.ready = ready.find((one) => one !== null) ?? null;
    const isReady = model.claim(delivery, begunBy(attempt));
    expect(attempt.ready !== null, 'there is something to send').to.equal(isReady);
  }

  async function answer(serial: number, ok: boolean): Promise<void> {
    const attempt = model.attempts.get(serial) ?? expect.fail('it is over');
    if (ok) accepted.add(attempt.deliveryId);
    await made[serial]?.answer?.(ok ? 200 : 500);
    model.finish(attempt, ok);
  }

  async function giveBack(serial: number): Promise<void> {
    const attempt = model.attempts.get(serial) ?? expect.fail('it is over');
    await made[serial]?.ready?.giveBack();
    model.giveBack(attempt);
  }

  async function renew(process: number): Promise<void> {
    const own = live().filter((one) => one.process === process);
    const claims = own.flatMap(({ serial }) => made[serial]?.claim ?? []);
    const renewed = await processOf(process).renew(claims);
    const held = model.renew(process).map(({ serial }) => made[serial]?.claim.token);
    expect(renewed.map(({ token }) => token)).to.have.members(held);
  }

  async function lapse(delivery: ModelDelivery | undefined): Promise<void> {
    if (!delivery?.isStored || delivery.state !== 'pending') return;
    await world.deliveries.updateOne({ _id: delivery.id }, { $set: { claimableAt: past } });
    delivery.isClaimable = true;
  }

  async function lapseEvents(ids: Iterable<string>): Promise<void> {
    for (const id of ids) {
      const event = model.events.get(id);
      await world.events.updateOne({ _id: id }, { $set: { fanOutAt: past } });
      if (event) event.isFree = true;
    }
  }

  function change(webhook: string | undefined, to: 'active' | 'inactive' | 'deleted'): void {
    if (webhook === undefined || model.webhooks.get(webhook) === 'deleted') return;
    model.webhooks.set(webhook, to);
    Object.assign(webhooks.webhooks.get(webhook) ?? {}, { active: to === 'active' });
    if (to === 'deleted') webhooks.webhooks.delete(webhook);
  }

  async function act(one: Step): Promise<unknown> {
    const { kind, process, pick, ok, hasRoom } = one;
    const other = (process + 1) % 3;
    const delivery = pickOf(model.deliveries.values(), pick);
    const webhook = pickOf(model.webhooks.keys(), pick);
    const ready = pickOf(
      live().filter((attempt) => !isSent(attempt)),
      pick,
    );
    const sent = pickOf(live().filter(isSent), pick);
    switch (kind) {
      case 'publish':
        return model.events.size < mostEvents && publish(one);
      case 'sweep':
        return sweep([process], hasRoom);
      case 'two sweeps':
        return sweep([process, other], hasRoom);
      case 'event lapses':
        return lapseEvents([pickOf(model.events.keys(), pick) as string]);
      case 'attempt lapses':
        return lapse(delivery);
      case 'claim':
        return delivery && claim(delivery, [process]);
      case 'two claims':
        return delivery && claim(delivery, [process, other]);
      case 'send':
        return ready && world.send(made[ready.serial] as LiveAttempt);
      case 'answer':
        return sent && answer(sent.serial, ok);
      case 'give back':
        return ready && giveBack(ready.serial);
      case 'store slow':
        await world.storeSlow();
        return model.storeSlow();
      case 'renew':
        return renew(process);
      case 'pause':
        return change(webhook, 'inactive');
      case 'resume':
        return change(webhook, 'active');
      case 'delete':
        return change(webhook, 'deleted');
    }
  }

  async function sendAndAnswer(serial: number, ok: boolean): Promise<void> {
    const attempt = made[serial] as LiveAttempt;
    if (!attempt.answer) await checked(() => world.send(attempt));
    await checked(() => answer(serial, ok));
  }

  /** One round of what a process does that has come to stay. @param answers of each webhook */
  async function carryOn(answers: ReadonlyMap<string, boolean>): Promise<void> {
    await checked(() => lapseEvents(model.events.keys()));
    await checked(() => sweep([survivor], true));
    for (const delivery of model.deliveries.values()) {
      await checked(() => lapse(delivery), true);
      await checked(() => claim(delivery, [survivor]));
      const own = live().find(({ deliveryId, process }) => process === survivor && deliveryId === delivery.id);
      if (own) await sendAndAnswer(own.serial, answers.get(delivery.webhookId) ?? true);
    }
  }

  const isOver = () =>
    [...model.events.values()].every(({ isDone }) => isDone) &&
    [...model.deliveries.values()].every(({ state }) => state !== 'pending');

  return {
    take: (step: Step) => checked(() => act(step), step.kind === 'renew' || step.kind === 'attempt lapses'),

    /** Has one process do what is left, and wakes those that had stopped in the midst of something; each delivery has ended then. */
    async finish(answers: readonly boolean[]): Promise<void> {
      const byWebhook = new Map([...model.webhooks.keys()].map((id, i) => [id, answers[i] ?? true]));
      for (let round = 0; !isOver(); round += 1) {
        expect(round, 'something is left for ever').to.be.below(mostRounds);
        await carryOn(byWebhook);
      }
      for (const { serial } of live()) {
        if (made[serial]?.answer || serial % 3 > 0) await sendAndAnswer(serial, serial % 2 > 0);
        else await checked(() => giveBack(serial));
      }
      expect(isOver()).to.equal(true);
      for (const { id, state, attempts } of model.deliveries.values()) {
        expect(state === 'delivered', 'it is delivered exactly when it was accepted').to.equal(accepted.has(id));
        if (state === 'failed') expect(attempts).to.have.length(maxAttempts);
      }
    },
    close: world.close,
  };
}
