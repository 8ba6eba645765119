import { connect, createServer, type Server, type Socket } from 'node:net';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import type { ModelGateway } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen, listenOn } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

/** A way to the database that can be blocked: what is sent then arrives when it is open again. */
async function startWay(uri: string) {
  const { hostname, port } = new URL(uri);
  const sockets = new Set<Socket>();
  let blocked = false;
  const server: Server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    near.on('data', (bytes) => far.write(bytes));
    far.on('data', (bytes) => near.write(bytes));
    if (blocked) near.pause();
  });
  const throughHere = new URL(uri);
  throughHere.port = String(await listenOn(server));
  throughHere.searchParams.delete('replicaSet');
  throughHere.searchParams.set('directConnection', 'true');
  return {
    uri: throughHere.href,
    block() {
      blocked = true;
      for (const socket of sockets) socket.pause();
    },
    open() {
      blocked = false;
      for (const socket of sockets) socket.resume();
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('a model call with limits, quotas and counters', () => {
  let way: Awaited<ReturnType<typeof startWay>>;
  let connection: Connection;
  let upstream: ScriptedUpstream;
  let gateway: ModelGateway;
  let server: Awaited<ReturnType<typeof listen>>;

  before(async () => {
    way = await startWay(freshUri());
    connection = await mongoose.createConnection(way.uri).asPromise();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 1 } });
    gateway = await createGateway({
      mongo: connection,
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      limits: { perKey: { requestsPerMinute: 1_000 }, perUser: { tokensPerMinute: 1_000_000 }, shared: true },
      quotas: { perUser: { unit: 'tokens', daily: 1_000_000 } },
      // one that is known without the database: what recognising a key costs is told elsewhere
      authenticate: () => ({ userId: 'usr_1', keyId: 'key_of_host' }),
    });
    await gateway.start();
    server = await listen(express().use(gateway.router));
  });

  after(async () => {
    await server?.close();
    await gateway?.close();
    await connection?.dropDatabase();
    await connection?.close();
    way?.close();
    await upstream?.close();
  });

  it('is answered while the database does not answer, and counted once it answers again', async () => {
    way.block();
    let reached = false;
    const ping = connection.db
      ?.admin()
      .ping()
      .then(() => {
        reached = true;
      });
    for (let i = 0; i < 3; i += 1) {
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] }),
      });
      expect(response.status).to.equal(200);
      expect(response.headers.get('x-ratelimit-remaining-requests')).to.match(/^99[789]$/);
      await response.arrayBuffer();
    }
    expect(reached).to.equal(false);
    way.open();
    await ping;
    for (let requests = 0; requests < 3; ) {
      const answer = await fetch(`${server.url}/v1/usage`);
      const { data } = (await answer.json()) as { data: { requests: number }[] };
      requests = data[0]?.requests ?? 0;
    }
  });
});

describe('a published event', function () {
  // where this machine is so busy that a second passes between two requests, the key is read first
  this.retries(3);
  let way: Awaited<ReturnType<typeof startWay>>;
  let connection: Connection;
  let gateway: ModelGateway;
  let server: Awaited<ReturnType<typeof listen>>;
  let receiver: TestReceiver;
  let key: string;
  const userId = 'usr_1';

  before(async () => {
    way = await startWay(freshUri());
    connection = await mongoose.createConnection(way.uri, { monitorCommands: true }).asPromise();
    gateway = await createGateway({ mongo: connection });
    await gateway.start();
    server = await listen(express().use(gateway.router));
    receiver = await startReceiver();
    ({ key } = await gateway.keys.create({ userId, scopes: ['events:publish'] }));
    await gateway.webhooks.create(userId, { url: receiver.url, events: ['credits.low'] });
  });

  after(async () => {
    way?.open();
    await receiver?.stop();
    await server?.close();
    await gateway?.close();
    await connection?.dropDatabase();
    await connection?.close();
    way?.close();
  });

  async function publish(): Promise<number> {
    const data = { user_id: userId, credits_remaining: 5, threshold: 10 };
    const response = await fetch(`${server.url}/v1/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'credits.low', user_id: userId, data }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  /** Resolves when these commands have been sent. */
  function sent(...wanted: readonly string[]): Promise<void> {
    const missing = new Set(wanted);
    return new Promise((resolve) => {
      const look = ({ commandName, command }: mongoose.mongo.CommandStartedEvent) => {
        missing.delete(`${commandName} ${command[commandName]}`);
        if (missing.size > 0) return;
        connection.getClient().off('commandStarted', look);
        resolve();
      };
      connection.getClient().on('commandStarted', look);
    });
  }

  it('leaves for a database that does not answer, with the look-up of its webhooks beside it', async () => {
    receiver.received.length = 0;
    for (let i = 1; i <= 3; i += 1) {
      expect(await publish()).to.equal(201);
      await receiver.count(i);
    }
    way.block();
    const published = publish();
    const isSent = sent('insert gateway_events', 'find gateway_webhooks').then(() => 'sent');
    expect(await Promise.race([isSent, published])).to.equal('sent');
    way.open();
    expect(await published).to.equal(201);
    await receiver.count(4);
  });
});
