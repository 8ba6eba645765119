import type { Connection } from 'mongoose';
import type { DeliveryDocument, DeliveryState } from '../../../../src/deliveries/model.ts';
import type { EventDocument } from '../../../../src/events/model.ts';
import { newId } from '../../../support/ids.ts';

/** Stores deliveries of an account that ended so, each with an event of its own; answers the ids of the events. */
export async function storeEnded(
  connection: Connection,
  webhookId: string,
  states: readonly DeliveryState[],
  userId = 'usr_1',
): Promise<string[]> {
  const day = 86_400_000;
  const pairs = states.map((state, i) => {
    const at = new Date(Date.now() - 60_000 + i);
    const eventId = newId('evt', at.getTime());
    const common = { userId, type: 'credits.low', test: false };
    const data = { user_id: userId, credits_remaining: i, threshold: 100 };
    const envelope = { id: eventId, type: 'credits.low', created: at.toISOString(), data };
    const event: EventDocument = {
      _id: eventId,
      ...common,
      created: at,
      acceptedAt: at,
      body: Buffer.from(JSON.stringify(envelope)),
      targets: [webhookId],
      skipped: [],
      fanOut: 'done',
      fanOutAt: at,
      fanOutLeases: 1,
      idempotencyKey: eventId,
      contentHash: '',
      deliveryKey: Buffer.alloc(32),
    };
    const delivery: DeliveryDocument = {
      _id: newId('dlv', at.getTime()),
      eventId,
      webhookId,
      ...common,
      state,
      attempt: 1,
      maxAttempts: 1,
      starts: 0,
      dueAt: at,
      lease: null,
      attempts: [{ number: 1, startedAt: at, durationMs: 5, status: 500, code: 'http_500', response: '' }],
      createdAt: at,
      endedAt: at,
      expiresAt: new Date(Date.now() + day),
    };
    return { event, delivery };
  });
  await connection.collection<EventDocument>('gateway_events').insertMany(pairs.map(({ event }) => event));
  await connection.collection<DeliveryDocument>('gateway_deliveries').insertMany(pairs.map(({ delivery }) => delivery));
  return pairs.map(({ event }) => event._id);
}

/** The id of the event in a delivery's body. */
export function eventIdOf({ body }: { readonly body: Buffer }): string {
  return JSON.parse(body.toString()).id;
}
