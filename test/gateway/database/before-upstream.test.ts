import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import type { ModelGateway } from '../../../src/index.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { measureAgain } from '../../support/measure-again.ts';
import { freshUri } from '../../support/mongo.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

/** So rarely that nothing this process does beside its calls comes in between. Milliseconds. */
const rarely = 10_000;

describe('a model call of a known account', () => {
  let connection: Connection;
  let upstream: ScriptedUpstream;
  let gateway: ModelGateway;
  let server: Awaited<ReturnType<typeof listen>>;
  let log: string[];
  /** Commands under way. */
  let unanswered = 0;

  before(async () => {
    log = [];
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    const client = connection.getClient();
    client.on('commandStarted', ({ commandName, command }) => {
      unanswered += 1;
      // beside its calls, which wait for none of it, this process reads budgets and what models others have made, and renews its own record
      const collection = String(command[commandName]);
      const looksForModels = collection.endsWith('_stored') && '$expr' in (command.filter ?? {});
      if (!looksForModels && !/_(account_budgets|processes)$/.test(collection)) log.push(commandName);
    });
    for (const name of ['commandSucceeded', 'commandFailed'] as const) {
      client.on(name, () => {
        unanswered -= 1;
      });
    }
    upstream = await ScriptedUpstream.start();
    const answer = json(200, { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 1 } });
    upstream.script = (...exchange) => {
      log.push('upstream');
      return answer(...exchange);
    };
    gateway = await createGateway({
      mongo: connection,
      // known without the database, as a key is that was just used
      authenticate: () => ({ userId: 'usr_1', keyId: 'key_of_host' }),
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      limits: {
        perKey: { requestsPerMinute: 1_000 },
        perUser: { tokensPerMinute: 1e6 },
        shared: true,
      },
      fixed: { syncInterval: 6 * rarely },
      quotas: { perUser: { unit: 'credits', daily: 1_000 } },
      credits: { prices: { '*': { input: 1, output: 1 }, free: {} }, initialBalance: 100 },
    });
    server = await listen(express().use(gateway.router));
  });

  after(async () => {
    await server?.close();
    await gateway?.close();
    await connection?.dropDatabase();
    await connection?.close();
    await upstream?.close();
  });

  /** Waits until what came of a call has been written. @param silence so long. Milliseconds */
  async function quiet(silence = 250): Promise<void> {
    for (let before = -1; log.length > before || unanswered > 0; ) {
      before = log.length;
      await new Promise((resolve) => setTimeout(resolve, silence));
    }
  }

  it('sends one database command before its upstream is called, which reserves its cost, with limits, quotas and credits on; none where it is free', async () => {
    const call = async (model: string) => {
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
      });
      expect(response.headers.get('x-ratelimit-remaining-requests')).to.match(/^99\d$/);
      await response.arrayBuffer();
    };
    await call('m');
    await quiet(1_500);
    log.length = 0;
    await call('m');
    await quiet(1_500);
    expect(log.slice(0, 2)).to.deep.equal(['findAndModify', 'upstream']);
    expect(log).to.include('insert');
    // what is still written of the calls before may come in between
    const first = await measureAgain(
      async () => {
        log.length = 0;
        await call('free');
        const [command] = log;
        await quiet();
        return command;
      },
      (command) => command === 'upstream',
    );
    expect(first).to.equal('upstream');
  });
});
