import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import { createModelGateway, type ModelGateway } from '../../src/index.ts';
import { watchedDatabase } from '../support/commands.ts';
import { listen, loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

describe('a model call with limits, quotas and counters', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let upstream: ScriptedUpstream;
  let gateway: ModelGateway;
  let server: Awaited<ReturnType<typeof listen>>;

  before(async () => {
    database = await watchedDatabase();
    upstream = await ScriptedUpstream.start();
    gateway = await createModelGateway({
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      ...loopbackOptions,
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      limits: {
        perKey: { requestsPerMinute: 1_000 },
        perUser: { tokensPerMinute: 1_000_000 },
        shared: true,
        syncInterval: 20,
      },
      quotas: { perUser: { unit: 'tokens', daily: 1_000_000 } },
    });
    server = await listen(express().use(gateway.router));
  });

  after(async () => {
    await server?.close();
    await gateway?.close();
    await upstream?.close();
    await database?.drop();
  });

  it('asks the database nothing before the upstream is called', async () => {
    const { key } = await gateway.keys.create({ userId: 'usr_1' });
    const commands: string[] = [];
    database.connection.getClient().on('commandStarted', ({ commandName }) => commands.push(commandName));
    let before: string[] = [];
    upstream.script = (res, request) => {
      before = [...commands];
      return json(200, { usage: { prompt_tokens: 1, completion_tokens: 1 } })(res, request);
    };
    const call = async (): Promise<number> => {
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] }),
      });
      await response.arrayBuffer();
      return response.status;
    };
    // the key is known from here on, for a while
    expect(await call()).to.equal(200);
    let quiet = 0;
    for (let i = 0; i < 3; i += 1) {
      // what the call before has left to write is written together, some time after it
      await sleep(120);
      commands.length = 0;
      expect(await call()).to.equal(200);
      if (before.length === 0) quiet += 1;
    }
    expect(quiet, before.join(' ')).to.equal(3);
    await sleep(250);
    expect(commands).to.include('update');
  });
});
