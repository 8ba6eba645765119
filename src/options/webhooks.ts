import { checkKeys, isObject, refuseOption } from './kinds.ts';

/** How events are delivered to webhooks, how long they are kept, and when webhooks are disabled. Durations are milliseconds. */
export interface DeliveryOptions {
  /**
   * Whether the `Retry-After` of a receiver's failure (seconds or a date) can postpone the next attempt: it is then due at the later of
   * schedule and `Retry-After`, at most 24 hours after the attempt. It adds no attempts and makes none earlier.
   * @default false: the schedule is the schedule
   * @when your customers' receivers limit rates and say when they have room
   */
  readonly honorRetryAfter?: boolean;
  /** The longest that one delivery attempt may take in all. @default 30_000 @when receivers that hang must free their places sooner */
  readonly attemptTimeout?: number;
  /**
   * Requests of deliveries under way at once in this process. Beyond 200, they wait for the processor more and more.
   * @default 200
   * @when the machine is small, or the receivers are slow and many
   */
  readonly concurrency?: number;
  /**
   * Of those, requests under way at once to all webhooks of one account, in each process. An account whose receivers hang
   * takes no more. One whose receivers answer quickly can use up to nine tenths of `concurrency` while no other account
   * needs them. An account's share is a part of what the others leave, so that ten that hang leave room for an eleventh. If
   * your gateway has one account, set it to `concurrency`: that is no limit, and keeps nothing for others.
   * @default a quarter of `concurrency`, rounded up
   * @when you have one account, or a few large ones
   */
  readonly concurrencyPerAccount?: number;
  /**
   * Of those, requests under way at once to one webhook, in each process. A receiver that hangs never takes more.
   * @default 10
   * @when one receiver takes most of your events, or none may get so many at once
   */
  readonly concurrencyPerWebhook?: number;
  /** Days that events and ended deliveries are kept. Nothing pending ever expires. @default 30 @when a law or the size of the database says how long */
  readonly retentionDays?: number;
  /**
   * How often a worker looks for attempts that are due, or will be within twice that time, and for events that other processes have
   * left. At most 2_000. @default 425 @when many workers that are mostly idle share one database
   */
  readonly sweepInterval?: number;
  /**
   * Whether a change stream tells workers at once of what other processes publish. Without it, and where there are no
   * change streams, they find it by their sweeps. @default false @when events are published in other processes than workers run in, and half a second is long
   */
  readonly changeStreams?: boolean;
  /**
   * An egress proxy that all deliveries go through, such as Smokescreen. It resolves the names of receivers, so it decides which addresses they may have;
   * `allowPrivateNetworks` then judges only what is an address in the URL. @default none @when requests leave your network through a proxy only
   */
  readonly proxy?: string;
  /** Disables a webhook after this many days of nothing but failed attempts, at least three. 1 to 365. @default never @when customers leave webhooks behind */
  readonly disableAfterDays?: number;
  /** Disables a webhook that answers 410 Gone. @default false @when your customers know that 410 unsubscribes them */
  readonly disableOnGone?: boolean;
  /**
   * Called before a webhook is disabled, so that you can tell its owner. `false`, or a promise of it, keeps it enabled: a
   * failing one for a day, then this is called again; one that is gone until the next 410.
   * @default every such webhook is disabled
   * @when you tell its owner, or some must stay
   */
  readonly onDisable?: (webhook: DisabledWebhook) => unknown;
}

/** When a delivery is attempted again (docs/guarantees.md): after 1 min, 5 min, 30 min, 2 h and 8 h. */
export const defaultRetryDelays: readonly number[] = Object.freeze([60_000, 300_000, 1_800_000, 7_200_000, 28_800_000]);

/** @throws GatewayError `invalid_options` */
export function checkRetryDelays(param: string, delays: unknown): void {
  if (!Array.isArray(delays) || delays.length > defaultRetryDelays.length) {
    refuseOption(param, `must be a list of at most ${defaultRetryDelays.length} delays in milliseconds`);
  }
  delays.forEach((delay, i) => {
    if (!Number.isInteger(delay) || delay < 0)
      refuseOption(`${param}[${i}]`, 'must be a whole number of milliseconds, 0 or more');
  });
}

/** A webhook that is about to be disabled. */
export interface DisabledWebhook {
  /** `wh_…` */
  readonly id: string;
  readonly userId: string;
  readonly url: string;
  readonly events: readonly string[];
  /** `gone`: it answered 410. `failing`: it failed everything for `deliveries.disableAfterDays`. */
  readonly reason: 'gone' | 'failing';
}

/** @throws GatewayError `invalid_options` */
export function checkDays(param: string, days: unknown): void {
  if (typeof days === 'number' && days >= 1 && days <= 365) return;
  refuseOption(param, `must be a number of days from 1 to 365, not ${String(days)}`);
}

/** An event type of the host's own. */
export interface EventTypeOptions {
  /** JSON Schema 2020-12 of the event's `data`, an object; `$ref`s may point into its own `$defs`. @when always */
  readonly schema: Readonly<Record<string, unknown>>;
  /** A `data` that fits the schema. It is documentation, and test events carry it. @when always */
  readonly example: Readonly<Record<string, unknown>>;
  /** When it is sent, in a sentence. @default '' @when its name does not say it all */
  readonly description?: string;
}

/** Words separated by dots, as the gateway's own types are. */
const typeName = /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/;
const typeNameLimit = 100;

/**
 * Checks the shape of the option `eventTypes`; the schemas themselves are compiled when the gateway is made.
 * @throws GatewayError `invalid_options`, naming the type
 */
export function checkEventTypes(param: string, types: unknown): void {
  if (!isObject(types)) refuseOption(param, "must be an object such as { 'order.shipped': { schema, example } }");
  for (const [type, options] of Object.entries(types)) {
    const ofType = `${param}['${type}']`;
    if (!typeName.test(type) || type.length > typeNameLimit) {
      refuseOption(ofType, `must be called by lower-case words separated by dots, ${typeNameLimit} characters at most`);
    }
    if (!isObject(options)) refuseOption(ofType, 'must be an object with schema and example');
    checkKeys(ofType, options, ['schema', 'example', 'description']);
    const { schema, example, description = '' } = options;
    if (!isObject(schema) || schema.type !== 'object')
      refuseOption(`${ofType}.schema`, "must be a JSON schema with type: 'object'");
    if (!isObject(example)) refuseOption(`${ofType}.example`, 'must be an object');
    if (typeof description !== 'string') refuseOption(`${ofType}.description`, 'must be a string');
  }
}
