import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { ModelGateway } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { type Cluster, startCluster } from '../../faults/cluster/cluster.ts';
import { createGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { payment } from '../harness.ts';

/** Webhooks of an account. */
const sizes = [0, 1, 21];

describe('A publication for which answers of the database are lost', function () {
  this.timeout(120_000);
  let cluster: Cluster;
  let publisher: ModelGateway;
  let receiver: TestReceiver;

  before(async () => {
    cluster = await startCluster();
    const mongo = `${cluster.uri}&appName=lost-answers`;
    publisher = await createGateway({ mongo });
    await publisher.start();
    receiver = await startReceiver();
    for (const size of sizes) {
      const webhook = { url: receiver.url, events: [payment.type], secret: 'a secret of the receiver' };
      for (let i = 0; i < size; i += 1) await publisher.webhooks.create(`usr_${size}`, webhook);
    }
  });
  after(async () => {
    await publisher?.close();
    await receiver?.stop();
    await cluster?.stop();
  });
  const documents = (collection: string) => cluster.connection.collection(`gateway_${collection}`);
  const eventsOf = (userId: string, idempotencyKey: string) =>
    documents('events').find({ userId, idempotencyKey }).toArray();

  /** Resolves when each event has been fanned out, by whoever does it. */
  async function allFannedOut(): Promise<void> {
    await until(async () => (await documents('events').countDocuments({ fanOut: 'pending' })) === 0, 60_000);
  }

  /** Publishes to each account at once; resolves to what each call came to. */
  function publishAll(idempotencyKey: string) {
    return Promise.all(
      sizes.map(async (size) => {
        const userId = `usr_${size}`;
        const call = publisher.publish({ ...payment, userId }, { idempotencyKey });
        const result = await call.then(
          ({ id }) => ({ id }),
          (error) => ({ error }),
        );
        return { userId, size, idempotencyKey, ...result };
      }),
    );
  }

  type Result = Awaited<ReturnType<typeof publishAll>>[number];
  const wasRefused = (result: Result) => 'error' in result && result.error.code === 'database_unavailable';

  /** Each event that there is has all its deliveries, and no key has two. */
  async function expectWhole(idempotencyKey: string): Promise<void> {
    await allFannedOut();
    for (const size of sizes) {
      const found = await eventsOf(`usr_${size}`, idempotencyKey);
      expect(found.length, `events to ${size} webhooks`).to.be.at.most(1);
      for (const { _id } of found) {
        const count = await documents('deliveries').countDocuments({ eventId: _id });
        expect(count, `deliveries to ${size} webhooks`).to.equal(size);
      }
    }
  }

  /** Until it is acknowledged; every refusal is one that asks for that. */
  async function repeat(idempotencyKey: string): Promise<void> {
    const until = performance.now() + 20_000;
    for (;;) {
      const results = await publishAll(idempotencyKey);
      const failures = results.flatMap((result) => ('error' in result ? [result.error] : []));
      for (const { code } of failures) expect(code).to.be.oneOf(['publish_unconfirmed', 'database_unavailable']);
      if (failures.length > 0 && performance.now() < until) {
        // as a publisher that tries again
        await sleep(100);
        continue;
      }
      expect(failures).to.deep.equal([]);
      for (const result of results) {
        const found = await eventsOf(result.userId, idempotencyKey);
        expect(found.map(({ _id }) => _id)).to.deep.equal('id' in result ? [result.id] : []);
      }
      return;
    }
  }

  const kinds: [string, string][] = [
    ['find', 'gateway_webhooks'],
    ['insert', 'gateway_events'],
    ['insert', 'gateway_deliveries'],
    ['find', 'gateway_events'],
    ['update', 'gateway_events'],
  ];
  for (const [name, collection] of kinds) {
    for (const times of [1, 4]) {
      const what = `${name} of ${collection}, ${times === 1 ? 'once' : `${times} times`}`;

      it(`is stored completely or not at all, and once when it is repeated (${what})`, async () => {
        const lost = cluster.network.loseAnswers(
          (command) => command.name === name && command.collection === collection,
          times,
        );
        const results: Result[] = [];
        const keys: string[] = [];
        let isRefused: boolean;
        try {
          do {
            const idempotencyKey = `${name} ${collection} ${times} ${keys.length}`;
            keys.push(idempotencyKey);
            const published = await publishAll(idempotencyKey);
            results.push(...published);
            // a repetition is what meets the event that is there
            const isRepeated = name === 'find' && collection === 'gateway_events' && !published.some(wasRefused);
            const repeated = isRepeated ? await publishAll(idempotencyKey) : [];
            // deliveries are stored, and the event is marked, after its publisher was answered
            if (collection === 'gateway_deliveries' || name === 'update') await allFannedOut();
            isRefused = [...published, ...repeated].some(wasRefused);
            // nothing is sent while the members elect a primary
            if (isRefused) await sleep(100);
          } while (isRefused && lost.left() === times && keys.length < 100);
        } finally {
          lost.stop();
        }

        expect(lost.left(), 'answers that were not lost').to.be.below(times);
        for (const result of results) {
          if (!('error' in result)) continue;
          const { code, details } = result.error;
          expect(code).to.be.oneOf(['publish_unconfirmed', 'database_unavailable']);
          if (code === 'publish_unconfirmed') expect(details.idempotencyKey).to.equal(result.idempotencyKey);
          // nothing was about to be stored
          else expect(await eventsOf(result.userId, result.idempotencyKey)).to.deep.equal([]);
        }
        for (const idempotencyKey of keys) {
          await expectWhole(idempotencyKey);
          await repeat(idempotencyKey);
          await expectWhole(idempotencyKey);
        }
      });
    }
  }

  const faults: [string, () => Promise<() => unknown>][] = [
    [
      'the primary steps down',
      async () => {
        await cluster.admin.command({ replSetStepDown: 20, force: true }).catch(() => {});
        return () => {};
      },
    ],
    [
      'the open connections lose all traffic',
      async () => cluster.network.inject({ action: 'swallow', openOnly: true, on: ({ from }) => from === undefined }),
    ],
    [
      'the open connections lose all answers',
      async () =>
        cluster.network.inject({
          action: 'swallow',
          openOnly: true,
          way: 'down',
          on: ({ from }) => from === undefined,
        }),
    ],
    [
      'the primary is partitioned from the other members',
      async () => {
        const { index } = await cluster.primary();
        return cluster.network.inject({
          action: 'hold',
          on: ({ from, to }) => from !== undefined && (from === index || to === index),
        });
      },
    ],
  ];
  for (const [what, begin] of faults) {
    it(`is stored completely or not at all, and once when it is repeated (${what})`, async () => {
      const under = publishAll(`${what} 0`);
      const end = await begin();
      const during = publishAll(`${what} 1`);
      const results = [...(await under), ...(await during)];
      await repeat(`${what} 2`);
      end();
      for (const result of results)
        if ('error' in result) expect(result.error.code).to.be.oneOf(['publish_unconfirmed', 'database_unavailable']);
      for (const key of [0, 1, 2]) {
        await expectWhole(`${what} ${key}`);
        await repeat(`${what} ${key}`);
        await expectWhole(`${what} ${key}`);
      }
    });
  }
});
