import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createModelGateway, type ModelGateway } from '../../src/index.ts';
import { createUsageModel } from '../../src/usage/model.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { freshUri } from '../support/mongo.ts';

const appName = 'unconfirmed-commit';
const userId = 'usr_1';
const call = {
  requestId: 'req_1',
  userId,
  keyId: 'key_1',
  endpoint: '/chat/completions',
  model: 'm',
  upstream: 'u',
  inputTokens: 9,
  cachedInputTokens: 0,
  outputTokens: 0,
  images: 0,
  estimated: false,
  ending: 'complete',
  counted: false,
  durationMs: 1,
  firstByteMs: 1,
} as const;

describe('what a transaction did whose commit was not answered', () => {
  let connection: Connection;
  let gateway: ModelGateway;

  before(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName }).asPromise();
    gateway = await createModelGateway({
      ...loopbackOptions,
      mongo: connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'u', baseUrl: 'http://127.0.0.1:9' }],
      credits: { prices: { '*': { input: 1_000_000 } }, lowThreshold: 5 },
      quotas: { perUser: { unit: 'requests', daily: 1 }, thresholds: [100] },
    });
    await gateway.start();
  });
  after(async () => {
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
  const published = async () => {
    const found = await connection.collection('gateway_events').find({ userId }).toArray();
    return found.map(({ type }) => type).sort();
  };

  /** A call that costs more than there is, and is counted as the gateway counts. */
  async function spend(): Promise<void> {
    const usage = createUsageModel(connection, 'gateway_');
    await usage.create({ ...call, _id: 'use_1', startedAt: new Date() });
    while ((await usage.countDocuments({ counted: false })) > 0) await sleep(20);
  }

  const faults: [string, object, object][] = [
    ['not made: the connection broke, more than once', { times: 3 }, { closeConnection: true }],
    ['made: no majority confirmed it in time, twice', { times: 2 }, { writeConcernError: { code: 64, errmsg: '' } }],
    ['undone', { times: 1 }, { errorCode: 251, errorLabels: ['TransientTransactionError'] }],
  ];
  for (const [what, mode, data] of faults) {
    it(`is done and told once (${what})`, async () => {
      await Promise.all(Object.values(connection.collections).map((one) => one.deleteMany({})));
      const during = async <T>(act: () => Promise<T>): Promise<T> => {
        await failing(mode, data);
        const done = await act();
        await failing('off');
        return done;
      };
      const payment = { paymentId: 'pay_1', userId, amount: 1, currency: 'usd', creditsAdded: 9 };
      await during(() => gateway.payments.completed(payment));
      const { id } = await during(() => gateway.keys.create({ userId }));
      expect(await during(() => gateway.keys.revoke(id))).to.equal(true);
      await during(spend);
      expect((await gateway.credits?.balance(userId))?.creditsRemaining).to.equal(0);
      await during(async () => gateway.credits?.topUp({ userId, credits: 7, reference: 'r' }));
      expect((await gateway.credits?.balance(userId))?.creditsRemaining).to.equal(7);
      expect(await published()).to.deep.equal([
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
