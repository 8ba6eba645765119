import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import express from 'express';
import OpenAI from 'openai';
import { WebSocket } from 'ws';
import { type ModelGateway, scopes, type UsageRecord } from '../../src/index.ts';
import { RealtimeSecrets } from '../../src/sockets/secrets.ts';
import { type SocketDependencies, Sockets } from '../../src/sockets/sockets.ts';
import { createGateway, type TestOptions } from '../support/gateway.ts';
import { listenOn } from '../support/listen.ts';
import { silentLogger } from '../support/logger.ts';
import { createTestProxy, type TestProxyOptions } from '../support/model-proxy.ts';
import { freshDatabase } from '../support/mongo.ts';
import { noStoredSecrets } from '../support/no-stored-objects.ts';
import { spec } from '../support/openapi.ts';
import { selfSigned } from '../support/servers/certificates.ts';
import { until } from '../support/until.ts';
import type { SocketUpstream } from './socket-upstream.ts';

// biome-ignore lint/suspicious/noExplicitAny: each test knows the events it asks for
type Event = any;

/** A gateway that takes WebSockets, over TLS too, because OpenAI's realtime client opens no others. */
export interface SocketGateway {
  readonly gateway: ModelGateway;
  readonly port: number;
  /** Where it listens, `ws://…/v1`. */
  readonly url: string;
  /** A key of `usr_1`. */
  readonly key: string;
  /** What `onUsage` was told, in this order. */
  readonly usage: UsageRecord[];
  /** The official client, over TLS. */
  readonly secure: OpenAI;
  /** The official client without TLS. */
  readonly plain: OpenAI;
  /** What a `ws` client needs to trust the gateway. */
  readonly trust: { readonly ca: string; readonly servername: string };
  newKey(input?: Partial<Parameters<ModelGateway['keys']['create']>[0]>): Promise<string>;
  /** What is stored of what upstreams keep. */
  stored(): Promise<readonly Event[]>;
  /** Waits for so many usage records in all. */
  charged(count: number): Promise<readonly UsageRecord[]>;
  close(): Promise<void>;
}

export async function startSocketGateway(options: TestOptions): Promise<SocketGateway> {
  const database = await freshDatabase();
  const usage: UsageRecord[] = [];
  const onUsage = (record: UsageRecord) => void usage.push(record);
  const gateway = await createGateway({ mongo: database.connection, onUsage, ...options });
  const app = express().use(gateway.router);
  const { cert, key: certificateKey } = selfSigned({ name: 'localhost' });
  const servers = [createServer(app), createTlsServer({ cert, key: certificateKey }, app)];
  for (const server of servers) gateway.attach(server);
  const [port, tlsPort] = await Promise.all(servers.map((server) => listenOn(server)));
  await gateway.start();
  const { key } = await gateway.keys.create({ userId: 'usr_1', scopes });
  const clientOf = (baseURL: string) => new OpenAI({ apiKey: key, baseURL, maxRetries: 0 });
  return {
    gateway,
    port: port as number,
    url: `ws://127.0.0.1:${port}/v1`,
    key,
    usage,
    secure: clientOf(`https://127.0.0.1:${tlsPort}/v1`),
    plain: clientOf(`http://127.0.0.1:${port}/v1`),
    trust: { ca: cert, servername: 'localhost' },
    newKey: async (input) => (await gateway.keys.create({ userId: 'usr_1', scopes: ['models'], ...input })).key,
    stored: () => database.connection.collection('gateway_stored').find({}).toArray(),
    async charged(count) {
      await until(() => usage.length >= count);
      return usage;
    },
    async close() {
      await gateway.close();
      for (const server of servers) {
        server.close();
        server.closeAllConnections();
      }
      await Promise.all(servers.map((server) => server.listening && once(server, 'close')));
      await database.drop();
    },
  };
}

/** WebSockets in front of an upstream, with no database. */
export async function startSockets(
  { baseUrl }: SocketUpstream,
  relaying: Partial<TestProxyOptions>,
  options: Partial<SocketDependencies>,
) {
  const proxy = createTestProxy({ upstreams: [{ name: 'up', baseUrl }], ...relaying });
  const sockets = new Sockets({
    relaying: proxy.relaying,
    authenticate: async () => ({ userId: 'usr_1' }),
    secrets: new RealtimeSecrets({ stored: noStoredSecrets, principalOfKey: async () => null }),
    spec,
    maxSocketMessageBytes: 1_024,
    maxSockets: 1_000,
    socketIdleTimeout: 60_000,
    observers: [],
    logger: silentLogger,
    ...options,
  });
  const server = createServer();
  sockets.attach(server);
  const url = `ws://127.0.0.1:${await listenOn(server)}/v1`;
  return { proxy, url, drain: () => sockets.drain(0), close: () => server.close() };
}

/** The connection below a socket. */
export const connectionOf = (socket: WebSocket) => (socket as unknown as { readonly _socket: Duplex })._socket;

/** A client's socket, with what it has received. */
export class SocketClient {
  readonly socket: WebSocket;
  readonly received: { readonly data: Buffer; readonly isBinary: boolean }[] = [];
  /** The close frame, once it has come. */
  closed: { readonly code: number; readonly reason: string } | undefined;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: Buffer, isBinary) => this.received.push({ data, isBinary }));
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
  }

  /** Opens one; rejects where the handshake is refused. */
  static async open(url: string, key: string, protocols: string[] = []): Promise<SocketClient> {
    const client = new SocketClient(new WebSocket(url, protocols, { headers: bearer(key) }));
    await once(client.socket, 'open');
    client.socket.on('error', () => {});
    return client;
  }

  get events(): Event[] {
    return this.received.map(({ data }) => JSON.parse(data.toString()));
  }

  send(event: object): void {
    this.socket.send(JSON.stringify(event));
  }

  /** Waits for an event of this type, and returns the latest. */
  async event(type: string, count = 1): Promise<Event> {
    await until(() => this.events.filter((event) => event.type === type).length >= count, undefined, type);
    return this.events.findLast((event) => event.type === type);
  }

  async whenClosed(): Promise<{ readonly code: number; readonly reason: string }> {
    await until(() => this.closed, undefined, 'closed');
    return this.closed as { code: number; reason: string };
  }
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** The HTTP answer to a handshake that is refused. */
export async function refusalOf(url: string, headers: Record<string, string>, protocols: string[] = []) {
  const socket = new WebSocket(url, protocols, { headers });
  const refusal = new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Event }>(
    (resolve, reject) => {
      socket.on('open', () => reject(new Error('the handshake was accepted')));
      socket.on('error', () => {});
      socket.on('unexpected-response', async (_req, res) => {
        const parts: Buffer[] = [];
        for await (const part of res) parts.push(part);
        const text = Buffer.concat(parts).toString();
        resolve({
          status: res.statusCode ?? 0,
          headers: res.headers,
          body: text.startsWith('{') ? JSON.parse(text) : text,
        });
      });
    },
  );
  return refusal;
}
