import { randomBytes } from 'node:crypto';
import express from 'express';
import type { Connection } from 'mongoose';
import { openGateway } from '../../src/gateway/open.ts';
import { type Logger, type ModelGateway, type ModelGatewayOptions, scopes } from '../../src/index.ts';
import { type Fixed, fixed as usual } from '../../src/options/fixed.ts';
import { resolveOptions } from '../../src/options/resolve.ts';
import { listen } from './listen.ts';
import { silentLogger } from './logger.ts';
import { gatewayDatabase } from './mongo.ts';

/** A key for sealing that no other test has. */
export function newSecretKey(id = 'k1'): string {
  return `${id}:${randomBytes(32).toString('base64')}`;
}

/** A gateway in an Express 5 app on loopback, with a database that nobody else uses and a key for `usr_1`. */
export interface LiveGateway {
  gateway: ModelGateway;
  /** To the database that it was given for itself; none where `mongo` says which. */
  connection: Connection | undefined;
  /** Where the app listens, without `/v1`. */
  url: string;
  /** An API key of `usr_1`, with every scope. */
  key: string;
  /** Calls the API with that key, JSON in and out. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  call(method: string, path: string, body?: unknown): Promise<{ status: number; body: any; headers: Headers }>;
  close(): Promise<void>;
}

/** Options every test gateway has: loopback receivers over http, no noise. */
export const loopbackOptions = {
  allowHttp: true,
  allowPrivateNetworks: ['127.0.0.0/8'],
  logger: silentLogger,
} satisfies Partial<ModelGatewayOptions>;

/** Options of a test's gateway, and what is not as in every gateway. */
export type TestOptions = Partial<ModelGatewayOptions> & { readonly fixed?: Partial<Fixed> };

/** A gateway that nobody serves and that makes no deliveries yet, with these options and {@link loopbackOptions}. */
export async function createGateway(options: TestOptions & Pick<ModelGatewayOptions, 'mongo'>): Promise<ModelGateway> {
  const { fixed: _, ...given } = options;
  const fixed = { ...usual, ...options.fixed };
  const all = { secretKeys: [newSecretKey()], ...loopbackOptions, ...given };
  return openGateway(resolveOptions(all, fixed), fixed);
}

/** Starts a gateway and serves it; with `mongo`, in that database. */
export async function startGateway(options: TestOptions = {}): Promise<LiveGateway> {
  const database = options.mongo ? undefined : await gatewayDatabase();
  const { logger = silentLogger } = options;
  /** Whether nothing of it can still come to its database when it has closed. */
  let hasWrittenAll = true;
  const noting: Logger = {
    info: (...said) => logger.info(...said),
    error: (...said) => logger.error(...said),
    warn(...said) {
      if (said[0].startsWith('not all could be written')) hasWrittenAll = false;
      logger.warn(...said);
    },
  };
  const gateway = await createGateway({ mongo: database?.connection as Connection, ...options, logger: noting });
  const app = express().use(gateway.router);
  const { url, close } = await listen(app);
  await gateway.start();
  const { key } = await gateway.keys.create({ userId: 'usr_1', scopes });
  return {
    gateway,
    connection: database?.connection,
    url,
    key,
    async call(method, path, body) {
      const response = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${key}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, body: text ? JSON.parse(text) : undefined, headers: response.headers };
    },
    async close() {
      await close();
      await gateway.close();
      await database?.giveBack(hasWrittenAll);
    },
  };
}
