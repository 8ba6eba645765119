import { expect } from 'chai';
import { type ModelGateway, scopes } from '../../src/index.ts';
import { low, startScene } from '../deliveries/over-http.ts';
import { hang, startReceiver } from '../deliveries/receiver.ts';
import { eventIdOf, storeEnded } from '../deliveries/redeliver/recoveries/missed.ts';
import { newSecretKey } from '../support/gateway.ts';
import { uriOf } from '../support/mongo.ts';
import { eventually } from '../support/until.ts';
import { describeKills, type Row, type Stage } from './harness.ts';

/** A receiver, a gateway here, and what other processes need to serve the same accounts. */
async function openScene({ start, defer }: Stage, retryDelays: number[], fixed: { recoverRate?: number } = {}) {
  const secretKeys = [newSecretKey()];
  const receiver = await startReceiver(200);
  defer(receiver.stop);
  const options = { secretKeys, fixed };
  const scene = await startScene({ ...options, retryDelays });
  defer(scene.close);
  const uri = uriOf(scene.connection.name);
  const { key } = await (scene.gateway as ModelGateway).keys.create({ userId: 'usr_1', scopes });
  return {
    scene,
    receiver,
    async process() {
      const started = await start({ uri, options: { ...options, retryDelays, deliveries: { sweepInterval: 100 } } });
      return {
        ...started,
        // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
        async post(path: string, body?: unknown): Promise<any> {
          const response = await fetch(started.url + path, {
            method: 'POST',
            headers: {
              authorization: `Bearer ${key}`,
              ...(body !== undefined && { 'content-type': 'application/json' }),
            },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          });
          return response.json();
        },
      };
    },
  };
}

const rows: Row[] = [
  {
    subject: 'a recovery',
    killed: 'after a third of it',
    holds: 'another process continues it, loses nothing and resends only what was in flight',
    async show(stage) {
      const { scene, receiver, process } = await openScene(stage, [], { recoverRate: 100 });
      const webhookId = await scene.webhook(receiver.url);
      const failed = await storeEnded(scene.connection, webhookId, Array(150).fill('failed'));
      await scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active: false });
      const missed = await Promise.all(Array.from({ length: 50 }, () => scene.gateway.publish(low)));
      await scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active: true });
      // nobody but processes that can be killed carries it on
      await scene.gateway.close();

      const first = await process();
      const since = new Date(Date.now() - 3_600_000).toISOString();
      const { id } = await first.post(`/v1/webhooks/${webhookId}/recover`, { since });
      await receiver.count(70);
      await first.kill();
      const second = await process();
      const recoveries = scene.connection.collection<{ _id: string; state: string }>('gateway_recoveries');
      const done = await eventually(
        () => recoveries.findOne({ _id: id }),
        (found) => found?.state === 'done',
        40_000,
      );
      await second.kill();

      expect(done).to.include({ found: 200, resent: 200, delivered: 200, failed: 0 });
      const received = receiver.received.map(eventIdOf);
      expect(new Set(received)).to.deep.equal(new Set([...failed, ...missed.map((event) => event.id)]));
      // four are in flight at once
      expect(received.length - 200).to.be.at.most(4);
      const deliveries = await scene.stored.find().toArray();
      expect(deliveries).to.have.length(200);
      for (const { state, attempts } of deliveries) {
        expect(state).to.equal('delivered');
        expect(attempts.filter(({ code }) => code === undefined)).to.have.length(1);
      }
    },
  },

  {
    subject: 'a resend',
    killed: 'before the answer',
    holds: 'the delivery has its six scheduled attempts and can be resent after the lease',
    async show(stage) {
      const { scene, receiver, process } = await openScene(stage, [3_000, 0, 0, 0, 0]);
      await scene.webhook(receiver.url);
      receiver.answers(500, hang, 500);
      const other = await process();
      const { id, next_attempt_at } = await scene.published(({ attempts_made }) => attempts_made === 1);
      const resent = other.post(`/v1/deliveries/${id}/resend`).catch(() => 'killed');
      await receiver.count(2);
      await other.kill();
      expect(await resent).to.equal('killed');
      expect((await scene.call('POST', `/v1/deliveries/${id}/resend`)).body.error.code).to.equal('attempt_in_flight');

      const failed = await scene.delivery(id, ({ state }) => state === 'failed', 40_000);
      const numbers = failed.attempts.map(({ number }: { number: number | null }) => number);
      expect(numbers).to.deep.equal([1, 2, 3, 4, 5, 6]);
      expect(Date.parse(failed.attempts[1].started_at)).to.be.at.least(Date.parse(next_attempt_at));
      expect(receiver.received).to.have.length(7);
      receiver.answers(200);
      expect((await scene.call('POST', `/v1/deliveries/${id}/resend`)).body.state).to.equal('delivered');
    },
  },

  {
    subject: 'a test event',
    killed: 'before the answer',
    holds: 'another process makes its one attempt',
    async show(stage) {
      const { scene, receiver, process } = await openScene(stage, [0]);
      const webhookId = await scene.webhook(receiver.url);
      await scene.gateway.close();
      receiver.answers(hang, 200);
      const first = await process();
      const sent = first.post(`/v1/webhooks/${webhookId}/test`, { type: 'credits.low' }).catch(() => 'killed');
      await receiver.count(1);
      await first.kill();
      expect(await sent).to.equal('killed');
      const second = await process();
      const look = () => scene.stored.find().toArray();
      const [delivery] = await eventually(look, ([found]) => found?.state === 'delivered', 40_000);
      await second.kill();

      expect(delivery?.attempts.map(({ number }) => number)).to.deep.equal([1]);
      expect(receiver.received).to.have.length(2);
    },
  },
];

describeKills(rows, 'at once');
