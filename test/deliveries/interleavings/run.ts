import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { firstDelivery } from '../../../src/deliveries/fan-out.ts';
import { fakeWebhooks } from '../delivery-services.ts';
import type { TestReceiver } from '../receiver.ts';
import { createCheck } from './check.ts';
import { DeliveryModel, type ModelAttempt, type ModelDelivery, type ModelEvent, maxAttempts } from './model.ts';
import { createProcesses, type Fault, type LiveAttempt } from './processes.ts';

/** What may happen next, and how often it does beside the others. */
export const kinds = {
  publish: 2,
  sweep: 4,
  'two sweeps': 2,
  'take and stop': 2,
  'event lapses': 3,
  'renew events': 3,
  'attempt lapses': 4,
  claim: 4,
  'two claims': 2,
  'claim another': 2,
  send: 7,
  answer: 6,
  'answer while stored': 2,
  'answer in vain': 2,
  'give back': 1,
  'store slow': 1,
  renew: 2,
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

  /** A process is told of an attempt that is not the one to be made. */
  async function claimAnother(delivery: ModelDelivery, process: number, number: number): Promise<void> {
    const { length } = made;
    const document = check.documents().get(delivery.id);
    if (document) await processOf(process).claim({ ...document, attempt: number });
    expect(made, 'it is claimed for no other attempt').to.have.length(length);
  }

  async function answer(serial: number, ok: boolean): Promise<void> {
    const attempt = model.attempts.get(serial) ?? expect.fail('it is over');
    if (ok) accepted.add(attempt.deliveryId);
    await made[serial]?.answer?.(ok ? 200 : 500);
    model.finish(attempt, ok);
  }

  async function answerWhileStored(attempt: ModelAttempt, ok: boolean, fault: Fault): Promise<void> {
    if (ok) accepted.add(attempt.deliveryId);
    await world.answerBetweenTries(made[attempt.serial] as LiveAttempt, ok ? 200 : 500, fault);
    if (fault === 'unconfirmed') model.storeSlow();
    model.finish(attempt, ok);
    model.storeSlow();
  }

  async function answerInVain(attempt: ModelAttempt, ok: boolean): Promise<void> {
    await world.answerInVain(made[attempt.serial] as LiveAttempt, ok ? 200 : 500);
    model.giveUp(attempt);
  }

  async function giveBack(serial: number): Promise<void> {
    const attempt = model.attempts.get(serial) ?? expect.fail('it is over');
    await made[serial]?.ready?.giveBack();
    model.giveBack(attempt);
  }

  const tokensOf = (attempts: readonly ModelAttempt[]) => attempts.map(({ serial }) => made[serial]?.claim.token);

  async function renew(process: number): Promise<void> {
    const { asked, renewed } = await processOf(process).renew();
    const held = model.renew(process);
    expect(asked.map(({ token }) => token)).to.have.members(tokensOf(held.asked));
    expect(renewed.map(({ token }) => token)).to.have.members(tokensOf(held.renewed));
  }

  async function renewEvents(process: number): Promise<void> {
    const { asked } = await processOf(process).renewEvents();
    // one whose fan-out others have ended may still be held
    const left = asked.filter(({ _id }) => !model.events.get(_id)?.isDone);
    const held = model.renewEvents(process).map(({ event, lease }) => [event.id, lease]);
    expect(left.map(({ _id, fanOutLeases }) => [_id, fanOutLeases])).to.have.deep.members(held);
  }

  async function takeAndStop(event: ModelEvent, process: number): Promise<void> {
    const isFree = model.free().includes(event);
    expect(await processOf(process).takeAndStop(event.id)).to.deep.equal(isFree ? [event.id] : []);
    if (isFree) model.takeAndStop(event);
  }

  async function lapse(delivery: ModelDelivery | undefined): Promise<void> {
    if (!delivery?.isStored || delivery.state !== 'pending') return;
    await world.deliveries.updateOne({ _id: delivery.id }, { $set: { claimableAt: past } });
    model.lapses(delivery);
  }

  async function lapseEvents(events: Iterable<ModelEvent>): Promise<void> {
    for (const event of events) {
      await world.events.updateOne({ _id: event.id }, { $set: { fanOutAt: past } });
      model.eventLapses(event);
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
    const other = (process + (pick % 2)) % 3;
    const event = pickOf(model.events.values(), pick);
    const delivery = pickOf(model.deliveries.values(), pick);
    const webhook = pickOf(model.webhooks.keys(), pick);
    const claimable = pickOf([...model.deliveries.values()].filter(model.canClaim), pick);
    const ready = pickOf(
      live().filter((attempt) => !isSent(attempt)),
      pick,
    );
    const sent = pickOf(live().filter(isSent), pick);
    const unwritten = pickOf(
      live().filter((attempt) => isSent(attempt) && attempt.isUnwritten),
      pick,
    );
    const held = pickOf(model.held(), pick);
    const fanOut = pickOf(model.fanOuts(), pick);
    switch (kind) {
      case 'publish':
        return model.events.size < mostEvents && publish(one);
      case 'sweep':
        return sweep([process], hasRoom);
      case 'two sweeps':
        return sweep([process, other], hasRoom);
      case 'take and stop':
        return event && takeAndStop(event, process);
      case 'event lapses':
        return event && lapseEvents([event]);
      case 'renew events':
        return fanOut && renewEvents(fanOut.process);
      case 'attempt lapses':
        return lapse(delivery);
      case 'claim':
        return delivery && claim(delivery, [process]);
      case 'two claims':
        return claimable && claim(claimable, [process, other]);
      case 'claim another':
        return claimable && claimAnother(claimable, process, claimable.attempt + (ok ? 1 : -1));
      case 'send':
        return ready && world.send(made[ready.serial] as LiveAttempt);
      case 'answer':
        return sent && answer(sent.serial, ok);
      case 'answer while stored':
        return unwritten && answerWhileStored(unwritten, ok, pick % 2 > 0 ? 'unconfirmed' : 'refused');
      case 'answer in vain':
        return sent && answerInVain(sent, ok);
      case 'give back':
        return ready && giveBack(ready.serial);
      case 'store slow':
        await world.storeSlow();
        return model.storeSlow();
      case 'renew':
        return held && renew(held.process);
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
    if (!attempt.answer) await world.send(attempt);
    await answer(serial, ok);
  }

  /** One round of what a process does that has come to stay. @param answers of each webhook */
  async function runRecovery(answers: ReadonlyMap<string, boolean>): Promise<void> {
    await checked(async () => {
      await lapseEvents(model.events.values());
      await sweep([survivor], true);
    });
    await checked(async () => {
      for (const delivery of model.deliveries.values()) {
        await lapse(delivery);
        await claim(delivery, [survivor]);
        const own = live().find(({ deliveryId, process }) => process === survivor && deliveryId === delivery.id);
        if (own) await sendAndAnswer(own.serial, answers.get(delivery.webhookId) ?? true);
      }
    });
  }

  const isOver = () =>
    [...model.events.values()].every(({ isDone }) => isDone) &&
    [...model.deliveries.values()].every(({ state }) => state !== 'pending');

  return {
    take: (step: Step) => checked(() => act(step)),

    /** Has one process do what is left, and wakes those that had stopped in the midst of something; each delivery has ended then. */
    async finish(answers: readonly boolean[]): Promise<void> {
      const byWebhook = new Map([...model.webhooks.keys()].map((id, i) => [id, answers[i] ?? true]));
      for (let round = 0; !isOver(); round += 1) {
        expect(round, 'something is left for ever').to.be.below(mostRounds);
        await runRecovery(byWebhook);
      }
      for (const { serial } of live()) {
        const isAnswered = made[serial]?.answer || serial % 3 > 0;
        await checked(() => (isAnswered ? sendAndAnswer(serial, serial % 2 > 0) : giveBack(serial)));
      }
      expect(isOver()).to.equal(true);
      for (const { idle } of processes) await idle();
      for (const { id, state, attempts } of model.deliveries.values()) {
        expect(state === 'delivered', 'it is delivered exactly when it was accepted').to.equal(accepted.has(id));
        if (state === 'failed') expect(attempts).to.have.length(maxAttempts);
      }
    },
    close: world.close,
  };
}
