import { setTimeout as sleep } from 'node:timers/promises';
import { dataOf, type Schemas } from '../../client/api.ts';
import type { CommandContext } from '../../client/context.ts';
import { CommandFailure } from '../../terminal/command-failure.ts';
import { spanOf } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { fieldLines } from '../../terminal/table.ts';
import { succeeded } from './view.ts';

type Details = Schemas['DeliveryDetails'];

/** Milliseconds between two reads of an attempt that took longer than the request, and for how long to read. */
const interval = 1_000;
const maxWait = 60_000;

function underWay({ in_flight: inFlight, test, state }: Details): boolean {
  return inFlight || (test && state === 'pending');
}

async function settled({ api }: CommandContext, delivery: Details): Promise<Details> {
  let latest = delivery;
  for (let waited = 0; underWay(latest) && waited < maxWait; waited += interval) {
    await sleep(interval);
    latest = await dataOf(api.GET('/v1/deliveries/{id}', { params: { path: { id: delivery.id } } }));
  }
  return latest;
}

function lines({ id, attempts }: Details, paint: Paint): string[] {
  const last = attempts.at(-1);
  if (!last) return [];
  const good = succeeded(last);
  const took = `in ${spanOf(last.duration_ms)}`;
  return fieldLines(
    [
      [
        'Result',
        good
          ? { text: `delivered: ${last.status} ${took}`, style: 'green' }
          : { text: `failed: ${last.code} ${took}`, style: 'red' },
      ],
      ['Why', last.explanation ?? undefined],
      ['Retry-After', last.retry_after ?? undefined],
      ['Location', last.location ?? undefined],
      ['Answer', last.response || undefined],
      ['Delivery', id],
    ],
    paint,
  );
}

/**
 * Shows the outcome of the requested attempt.
 * @throws CommandFailure where it failed, or has not ended yet
 */
export async function showOutcome(context: CommandContext, delivery: Details): Promise<void> {
  const latest = await settled(context, delivery);
  context.show(latest, lines);
  if (underWay(latest)) {
    throw new CommandFailure(`It has not ended yet. Look again: express-model-gateway deliveries show ${latest.id}`);
  }
  const last = latest.attempts.at(-1);
  if (!last || !succeeded(last)) throw new CommandFailure('It was not delivered.');
}
