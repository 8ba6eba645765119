import { duration, jsonObject, listOf, network, wholeNumber, yesOrNo } from '../parsers.ts';

const year = 365 * 24 * 60 * 60_000;

/** Which webhooks there may be, and how they are delivered to. */
export const webhookVariables = {
  ALLOW_HTTP: {
    meaning: 'Whether webhooks may use plain http',
    type: yesOrNo,
    default: 'true while HOST is loopback and NODE_ENV is not production, else false',
    example: 'false',
  },
  ALLOW_PRIVATE_NETWORKS: {
    meaning: 'Private networks that webhooks may reach',
    type: listOf(network, 1_000, 'networks such as 10.0.0.0/8,fd00::/8, or none'),
    default: '127.0.0.0/8,::1/128 while HOST is loopback and NODE_ENV is not production, else none',
    example: '10.0.0.0/8,192.168.0.0/16',
  },
  RETRY_DELAYS: {
    meaning: 'Waits before attempts 2 to 6 of a delivery, each counted from the end of the previous attempt',
    type: listOf(duration(0, year, ''), 5, 'at most five durations such as 300ms,1m,2h, or none'),
    default: '1m,5m,30m,2h,8h',
    example: '2s,4s,8s',
  },
  HONOR_RETRY_AFTER: {
    meaning: "Whether a receiver's Retry-After can postpone the next attempt, at most 24 hours; it makes none earlier",
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  ATTEMPT_TIMEOUT: {
    meaning: 'Longest time that one delivery attempt may take',
    type: duration(1, 30_000, 'a duration from 1ms to 30s'),
    default: '30s',
    example: '10s',
  },
  CONCURRENCY: {
    meaning: 'Maximum number of delivery attempts at once',
    type: wholeNumber(1, 10_000),
    default: '200',
    example: '400',
  },
  CONCURRENCY_PER_ACCOUNT: {
    meaning: 'Maximum of those attempts for one account whose receivers are slow',
    type: wholeNumber(1, 10_000),
    default: 'a quarter of CONCURRENCY',
    example: '100',
  },
  CONCURRENCY_PER_WEBHOOK: {
    meaning: 'Maximum of those attempts to one webhook',
    type: wholeNumber(1, 10_000),
    default: '10',
    example: '20',
  },
  CHANGE_STREAMS: {
    meaning: 'Whether a change stream tells workers at once what other processes publish',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  RECOVER_RATE: {
    meaning: 'Deliveries that a recovery of one webhook resends per second',
    type: wholeNumber(1, 10_000),
    default: '50',
    example: '10',
  },
  DISABLE_AFTER_DAYS: {
    meaning: 'Days after which a webhook is disabled if every attempt failed',
    type: wholeNumber(1, 365),
    default: 'never',
    example: '5',
  },
  DISABLE_ON_GONE: {
    meaning: 'Whether a webhook that responds 410 Gone is disabled',
    type: yesOrNo,
    default: 'false',
    example: 'true',
  },
  MAX_WEBHOOKS: {
    meaning: 'Maximum number of webhooks per account',
    type: wholeNumber(1, 100_000),
    default: '50',
    example: '10',
  },
  EVENT_TYPES: {
    meaning: 'Your own event types by name, each with the JSON schema of its data and an example',
    type: jsonObject,
    default: 'none',
    example: 'event-types.json',
  },
  RETENTION_DAYS: {
    meaning: 'Days that events and ended deliveries are kept',
    type: wholeNumber(1, 3_650),
    default: '30',
    example: '90',
  },
};
