import { markdownTable } from './markdown-table.ts';

/** A collection that grows with use, and how it is sharded. */
export interface ShardedCollection {
  /** Without the prefix of the gateway. */
  readonly name: string;
  readonly key: Readonly<Record<string, 1 | 'hashed'>>;
  readonly why: string;
}

/** Every collection that grows with use. docs/scale.md is generated from it. */
export const shardedCollections: readonly ShardedCollection[] = [
  {
    name: 'events',
    key: { userId: 'hashed' },
    why: 'idempotency keys are unique within an account, so an account must be on one shard',
  },
  {
    name: 'deliveries',
    key: { _id: 'hashed' },
    why: 'claims, outcomes and reads name deliveries by id; one large account spreads over all shards',
  },
  { name: 'usage', key: { _id: 'hashed' }, why: 'records are written and counted by id' },
  { name: 'usage_counters', key: { _id: 'hashed' }, why: 'sums are added to by id' },
  { name: 'usage_key_totals', key: { _id: 'hashed' }, why: 'sums are added to and read by id' },
  { name: 'usage_periods', key: { _id: 'hashed' }, why: 'sums are added to and read by id' },
  { name: 'credit_ledger', key: { _id: 'hashed' }, why: 'an entry is booked once by its id' },
  { name: 'credit_accounts', key: { _id: 'hashed' }, why: 'the id is the account' },
  { name: 'payments', key: { _id: 'hashed' }, why: 'a payment is booked once by its id' },
  { name: 'tallies', key: { _id: 1 }, why: "the hours of a webhook are a range of ids that begin with the webhook's" },
  { name: 'health', key: { _id: 'hashed' }, why: 'the id is the webhook' },
];

/** What stays on the primary shard, and why. */
export const unshardedCollections: Readonly<Record<string, string>> = {
  keys: 'an account has at most `limits.apiKeys` (100) that work; their unique places are by account, and requests find them by id',
  webhooks:
    'an account has at most `limits.webhooks` (50); their unique places are by account, and deliveries find them by id',
  stored:
    'one small document for each thing that an upstream keeps; polls claim by time, which MongoDB below 7.0 refuses without the key',
  jobs: 'one for each second in which retries are due, and losing all of them loses nothing',
  recoveries: 'few; at most one runs for a webhook',
  account_budgets: 'one small document for each account',
  rates: 'minutes long',
  exceeded: 'hours long',
  sendrates: 'one small document for each webhook with a rate limit',
  refusals: 'one small document for each hour and account with refused requests, for eight days',
  transaction_owners: 'one small document for each process',
  processes: 'one small document for each process, a day long',
};

/** Queries of sharded collections that go to every shard, as `shapeOf` in queries.ts names them, and how often each is made. */
export const broadcasts: Readonly<Record<string, string>> = {
  'aggregate deliveries: $expr, $or, claimableAt': 'a sweep: every `deliveries.sweepInterval` (425 ms) of each worker',
  'aggregate deliveries: $expr, claimableAt, lease': 'a part of the same command',
  'aggregate events: $expr, fanOut': 'a part of the same command',
  'aggregate deliveries: $expr, state, webhookId': 'a worker takes up to 1,000 due deliveries of many webhooks at once',
  'find usage: counted': 'once a second of each process: calls that their process has not counted',
  'find usage: _id, counted': 'where that has found any, which is rare: those that are counted then',
  'find deliveries: _id, eventId, state, userId': 'a list of deliveries, on request',
  'find deliveries: _id, state, type, userId': 'a list of deliveries, on request',
  'find deliveries: _id, state, type, userId, webhookId': 'a list of deliveries, on request',
  'aggregate deliveries: userId': 'the types for a list of deliveries, on request',
  'aggregate deliveries: webhookId': 'the types for a list of deliveries, on request',
  'aggregate deliveries: eventId': 'the states for a list of events, on request',
  'aggregate usage_counters: day, userId': 'a report of usage, on request',
  'aggregate usage_counters: keyId, userId': 'a report of usage by key, on request',
  'aggregate deliveries: $expr, claimableAt':
    'the size of the backlog, at each scrape of metrics and on request of the operator',
  'aggregate events: $expr, fanOut, fanOutAt': 'a part of the same',
  'find events: _id, expiresAt, fanOut': 'once an hour of each worker: events past their retention',
  'find usage_periods: period, start': 'the list of accounts, on request of the operator',
  'find usage_periods: period, start, userId': 'a later page of that list',
  'find health: reportedFailingSince': 'the list of webhooks that fail, on request of the operator',
  'find health: _id, reportedFailingSince': 'a later page of that list',
  'find events: _id': 'a search for the id of an event, on request of the operator',
  'aggregate usage: _id': 'a search for the id of a request, on request of the operator',
};

const code = (text: string) => `\`${text}\``;
const shown = (key: ShardedCollection['key']) =>
  JSON.stringify(key)
    .replaceAll('"', "'")
    .replaceAll("':", "': ")
    .replace(/'(\w+)':/g, '$1:');

/** What docs/scale.md says about shard keys. */
export function shardingSection(): string {
  const commands = shardedCollections.flatMap(({ name, key }) => [
    ...(Object.values(key).includes('hashed') ? [`db.gateway_${name}.createIndex(${shown(key)})`] : []),
    `sh.shardCollection('gateway.gateway_${name}', ${shown(key)})`,
  ]);
  return [
    markdownTable(
      ['collection', 'shard key', 'why'],
      shardedCollections.map(({ name, key, why }) => [code(name), code(shown(key)), why]),
    ),
    `\`\`\`mongosh\nuse gateway\n${commands.join('\n')}\n\`\`\``,
    'Not sharded:',
    markdownTable(
      ['collection', 'why'],
      Object.entries(unshardedCollections).map(([name, why]) => [code(name), why]),
    ),
    'These queries have no shard key, and go to every shard:',
    markdownTable(
      ['query', 'when'],
      Object.entries(broadcasts).map(([shape, when]) => [code(shape), when]),
    ),
  ].join('\n\n');
}
