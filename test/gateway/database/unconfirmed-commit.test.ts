import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import type { ModelGateway } from '../../../src/index.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const appName = 'unconfirmed-commit';

describe('a transaction whose commit is not confirmed', () => {
  let connection: Connection;
  let gateway: ModelGateway;
  let upstream: ScriptedUpstream;
  let app: Awaited<ReturnType<typeof listen>>;

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 0, completion_tokens: 9, total_tokens: 9 } });
    gateway = await createGateway({
      mongo: connection,
      upstreams: [{ name: 'u', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { output: 1_000_000 } }, lowThreshold: 5 },
      quotas: { perUser: { unit: 'requests', daily: 1 }, thresholds: [100] },
    });
    app = await listen(express().use(gateway.router));
    await gateway.start();
  });
  after(async () => {
    await app.close();
    await upstream.close();
    await gateway.close();
    await connection.dropDatabase();
    await connection.close();
  });

  const failing = (mode: object | 'off', data: object = {}) =>
    connection
      .getClient()
      .db('admin')
      .command({
        configureFailPoint: 'failCommand',
        mode,
        data: { appName, failCommands: ['commitTransaction'], ...data },
      });
  const published = async (userId: string) => {
    const found = await connection.collection('gateway_events').find({ userId }).toArray();
    return found.map(({ type }) => type).sort();
  };

  /** A call that costs all there is; resolves when it is counted. */
  async function spend(userId: string, key: string): Promise<void> {
    const response = await fetch(`${app.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 }),
    });
    expect(response.status).to.equal(200);
    const counted = () => connection.collection('gateway_usage').countDocuments({ userId, counted: true });
    // a broken connection may end this read too
    await until(async () => (await counted().catch(() => 0)) !== 0);
  }

  const faults: [string, object, object][] = [
    ['not committed: the connection broke three times', { times: 3 }, { closeConnection: true }],
    ['committed: no majority confirmed it, twice', { times: 2 }, { writeConcernError: { code: 64, errmsg: '' } }],
    ['aborted by the server', { times: 1 }, { errorCode: 251, errorLabels: ['TransientTransactionError'] }],
  ];
  for (const [index, [what, mode, data]] of faults.entries()) {
    const userId = `usr_${index}`;

    it(`takes effect and publishes its event once (${what})`, async () => {
      const during = async <T>(act: () => Promise<T>): Promise<T> => {
        // how often commits have failed so far
        const { count: before } = await failing(mode, data);
        const done = await act();
        const { count: after } = await failing('off');
        expect(after).to.be.above(before);
        return done;
      };
      const payment = { paymentId: `pay_${index}`, userId, amount: 1, currency: 'usd', creditsAdded: 9 };
      await during(() => gateway.payments.completed(payment));
      const { id, key } = await during(() => gateway.keys.create({ userId }));
      await during(() => spend(userId, key));
      expect(await during(() => gateway.keys.revoke(id))).to.equal(true);
      expect((await gateway.credits?.balance(userId))?.creditsRemaining).to.equal(0);
      await during(async () => gateway.credits?.topUp({ userId, credits: 7, reference: 'r' }));
      expect((await gateway.credits?.balance(userId))?.creditsRemaining).to.equal(7);
      expect(await published(userId)).to.deep.equal([
        'api_key.created',
        'api_key.revoked',
        'credits.depleted',
        'credits.low',
        'payment.completed',
        'usage.threshold',
      ]);
    });
  }
});
