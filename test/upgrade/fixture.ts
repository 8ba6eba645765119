import mongoose, { type Connection } from 'mongoose';
import type { ModelGatewayOptions } from '../../src/index.ts';
import { schemaVersion } from '../../src/mongo/schema/prepare-schema.ts';
import { packageVersion } from '../support/version.ts';

const { EJSON } = mongoose.mongo.BSON;

/** The documents of a database that one version of the package has written. Its keys protect nothing but this. */
export interface Fixture {
  readonly packageVersion: string;
  readonly schemaVersion: number;
  readonly writtenAt: Date;
  readonly secretKey: string;
  /** An API key of `usr_1` with every scope. */
  readonly apiKey: string;
  /** The secret of every webhook. */
  readonly webhookSecret: string;
  /** By their names without the prefix. */
  readonly collections: Readonly<Record<string, readonly mongoose.mongo.Document[]>>;
}

/** Stands for the receiver's address in a fixture. */
export const receiverInFixture = 'http://127.0.0.1:9';
export const prefix = 'gateway_';

/** The options of who writes a fixture, and of who reads it. */
export const fixtureOptions = {
  retryDelays: [3_600_000],
  deliveries: { disableOnGone: true },
  limits: { perKey: { requestsPerMinute: 3 }, shared: true },
  credits: { prices: { '*': { input: 1_000 } }, initialBalance: 100, lowThreshold: 99 },
  quotas: { perUser: { unit: 'tokens', daily: 10, monthly: 1_000 }, thresholds: [50] },
  eventTypes: { 'order.shipped': { schema: { type: 'object' }, example: { order: 1 } } },
} satisfies Partial<ModelGatewayOptions>;

/** What is fixed in every other gateway. */
export const fixtureFixed = { limitEventWindow: 100 };

/** Reads every collection of a gateway. */
export async function dump(connection: Connection, about: Pick<Fixture, 'secretKey' | 'apiKey' | 'webhookSecret'>) {
  const names = (await connection.listCollections()).map(({ name }) => name).sort();
  const entries = names.map(async (name) => {
    const documents = await connection.collection(name).find().sort({ _id: 1 }).toArray();
    return [name.slice(prefix.length), documents] as const;
  });
  const collections = Object.fromEntries(await Promise.all(entries));
  const fixture: Fixture = {
    packageVersion,
    schemaVersion,
    writtenAt: new Date(),
    ...about,
    collections,
  };
  return `${EJSON.stringify(fixture, undefined, 2)}\n`;
}

/** Every date so many milliseconds later: what is due in the fixture is due now, and what is kept has not expired. */
function shift(value: unknown, by: number): unknown {
  if (value instanceof Date) return new Date(value.getTime() + by);
  if (Array.isArray(value)) return value.map((item) => shift(item, by));
  if (value === null || typeof value !== 'object' || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shift(field, by)]));
}

/**
 * Fills a database with a fixture, as it would be so many milliseconds after it was written.
 * @param text the fixture's file
 * @param receiver the address of all webhooks
 */
export async function restore(connection: Connection, text: string, receiver: string, age: number): Promise<Fixture> {
  const fixture = EJSON.parse(text.replaceAll(receiverInFixture, receiver)) as Fixture;
  const by = Date.now() - age - fixture.writtenAt.getTime();
  for (const [name, documents] of Object.entries(fixture.collections)) {
    if (documents.length === 0) continue;
    await connection.collection(prefix + name).insertMany(documents.map((one) => shift(one, by) as object));
  }
  return fixture;
}
