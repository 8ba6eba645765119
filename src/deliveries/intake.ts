import { createLane, type Lane } from './lane.ts';

/** What starts an attempt. Only the claim decides whether it is really due. */
export interface Bell {
  readonly deliveryId: string;
  readonly webhookId: string;
  readonly attempt: number;
}

/** An attempt that is claimed, with all that sending it takes. */
export interface ReadyAttempt {
  /** Makes the request; resolves when it has ended, with what is left to do without a place. Never rejects. */
  send(): Promise<() => Promise<void>>;
  /** Leaves the attempt to whoever claims it next. Never rejects. */
  giveBack(): Promise<void>;
}

/** Claims an attempt and reads what it takes; `null` when there is nothing to send. Never rejects. */
export type Prepare = (bell: Bell) => Promise<ReadyAttempt | null>;

export interface IntakeDeps {
  /** Requests under way at once. */
  readonly concurrency: number;
  /** Requests under way at once to one webhook, so that one that hangs cannot take them all. */
  readonly perWebhook: number;
  /** How long a claimed attempt waits for a place until it is given back. Milliseconds. */
  readonly patience: number;
  /** Called when there may be room for another attempt of this webhook. */
  readonly onRoom: (webhookId: string) => void;
  /** Called when there may be room for another attempt of whatever webhook. */
  readonly onRoomInAll: () => void;
}

/** Which attempts are held by this process, and which of them have a place. */
export interface Intake {
  /**
   * Has the attempt prepared at once and sent as soon as there is a place; `null` where there is no room for it. Resolves,
   * when that is known, with whether there is something to send; `false` also for what is held already.
   */
  offer(bell: Bell, prepare: Prepare): Promise<boolean> | null;
  /** How many more attempts of this webhook would be taken. */
  room(webhookId: string): number;
  /** How many more of it are worth asking the database for: none while half of what is claimed ahead is still there. */
  wanted(webhookId: string): number;
  /** How many more are of whatever webhook. */
  wantedInAll(): number;
  /** Starts nothing more; resolves when everything that was held has been recorded or given back. */
  close(): Promise<void>;
}

/** Attempts held in all, in multiples of those under way: claimed ahead, or waiting to be recorded. */
const heldLimit = 5;

interface Waiting {
  readonly ready: ReadyAttempt;
  readonly done: () => void;
  readonly impatience: NodeJS.Timeout;
}

/** A fair share of the places for each webhook. */
export function createIntake({ concurrency, perWebhook, patience, onRoom, onRoomInAll }: IntakeDeps): Intake {
  const held = new Map<string, Promise<void>>();
  const lanes = new Map<string, Lane>();
  /** By webhook, the one served longest ago first. */
  const waiting = new Map<string, Set<Waiting>>();
  let sending = 0;
  let closed = false;

  /** A webhook of which nothing is held has a new one. */
  const laneOf = (webhookId: string): Lane => lanes.get(webhookId) ?? createLane(perWebhook);

  /** The attempt needs no place any more; a webhook without attempts is forgotten. */
  function vacate(webhookId: string, lane: Lane): void {
    lane.held -= 1;
    if (lane.held === 0) lanes.delete(webhookId);
    sendWaiting();
    onRoom(webhookId);
  }

  const mostHeld = concurrency * heldLimit;
  const roomInAll = () => (closed ? 0 : Math.max(0, mostHeld - held.size));
  const isLowInAll = () => held.size < (concurrency + mostHeld) / 2;
  const room = (webhookId: string) => Math.min(roomInAll(), laneOf(webhookId).room());

  const hasPlace = (lane: Lane) => sending < concurrency && lane.sending < perWebhook;

  async function send(webhookId: string, lane: Lane, ready: ReadyAttempt, done: () => void): Promise<void> {
    const started = performance.now();
    lane.sending += 1;
    sending += 1;
    const finish = await ready.send();
    lane.sending -= 1;
    sending -= 1;
    lane.ended(performance.now() - started);
    vacate(webhookId, lane);
    await finish();
    done();
  }

  function wait(webhookId: string, lane: Lane, ready: ReadyAttempt, done: () => void): void {
    const queue = waiting.get(webhookId) ?? new Set<Waiting>();
    const impatience = setTimeout(() => {
      lane.stuck();
      leave(webhookId, queue, entry);
    }, patience);
    const entry = { ready, done, impatience };
    waiting.set(webhookId, queue.add(entry));
  }

  function leave(webhookId: string, queue: Set<Waiting>, entry: Waiting): void {
    remove(webhookId, queue, entry);
    void entry.ready.giveBack().then(() => {
      vacate(webhookId, laneOf(webhookId));
      entry.done();
    });
  }

  function remove(webhookId: string, queue: Set<Waiting>, entry: Waiting): void {
    clearTimeout(entry.impatience);
    queue.delete(entry);
    waiting.delete(webhookId);
    if (queue.size > 0) waiting.set(webhookId, queue);
  }

  function sendWaiting(): void {
    for (const [webhookId, queue] of waiting) {
      if (sending >= concurrency) return;
      const lane = laneOf(webhookId);
      const [entry] = queue;
      if (!entry || !hasPlace(lane)) continue;
      remove(webhookId, queue, entry);
      void send(webhookId, lane, entry.ready, entry.done);
    }
  }

  async function pass(webhookId: string, lane: Lane, preparing: Promise<ReadyAttempt | null>): Promise<void> {
    const ready = await preparing;
    if (ready === null || closed) {
      await ready?.giveBack();
      vacate(webhookId, lane);
      return;
    }
    if (hasPlace(lane)) await new Promise<void>((done) => void send(webhookId, lane, ready, done));
    else await new Promise<void>((done) => wait(webhookId, lane, ready, done));
  }

  return {
    room,
    wanted: (webhookId) => (laneOf(webhookId).isLow() ? room(webhookId) : 0),
    wantedInAll: () => (isLowInAll() ? roomInAll() : 0),
    offer(bell, prepare) {
      const { deliveryId, webhookId } = bell;
      if (closed || held.has(deliveryId)) return Promise.resolve(false);
      if (room(webhookId) === 0) return null;
      const lane = laneOf(webhookId);
      lanes.set(webhookId, lane);
      lane.held += 1;
      const preparing = prepare(bell);
      const ended = pass(webhookId, lane, preparing).finally(() => {
        held.delete(deliveryId);
        onRoomInAll();
      });
      held.set(deliveryId, ended);
      return preparing.then((ready) => ready !== null);
    },
    async close() {
      closed = true;
      for (const [webhookId, queue] of [...waiting]) for (const entry of queue) leave(webhookId, queue, entry);
      await Promise.all(held.values());
    },
  };
}
