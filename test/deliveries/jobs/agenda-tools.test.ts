import { MongoBackend } from '@agendajs/mongo-backend';
import { Agenda, type JobWithState } from 'agenda';
import { expect } from 'chai';
import type { ModelGatewayOptions } from '../../../src/index.ts';
import { eventually } from '../../support/until.ts';
import { low, type Scene, startScene } from '../over-http.ts';
import { type Answer, startReceiver, type TestReceiver } from '../receiver.ts';

const hour = 3_600_000;

/** What of a stored delivery a job says. */
interface Stored {
  readonly _id: string;
  readonly webhookId: string;
  readonly userId: string;
  readonly attempt: number;
  readonly dueAt: Date;
}

describe("Agenda's own tools", () => {
  let scene: Scene;
  let receiver: TestReceiver;
  /** Knows nothing of the gateway but where its jobs are, as Agendash does. */
  let stock: Agenda;

  async function open(options: Partial<ModelGatewayOptions>, ...answers: Answer[]): Promise<void> {
    receiver = await startReceiver(...answers);
    scene = await startScene({ allowHttp: true, allowPrivateNetworks: ['127.0.0.1/32'], ...options });
    const backend = new MongoBackend({
      mongo: scene.connection.db as never,
      collection: 'gateway_jobs',
      ensureIndex: false,
    });
    stock = new Agenda({ backend });
    await stock.ready;
  }
  afterEach(async () => {
    await scene.close();
    await receiver.stop();
  });

  const jobs = async (): Promise<JobWithState[]> => (await stock.queryJobs()).jobs;
  const jobsOnce = (holds: (found: JobWithState[]) => boolean) => eventually(jobs, holds);
  const hasAttempts = (count: number) => (delivery: { attempts: unknown[] }) => delivery.attempts.length === count;
  const none = (found: JobWithState[]) => found.length === 0;

  /** As the one job of a pending delivery has to be. */
  function expectJobOf(found: JobWithState[], { _id, webhookId, userId, attempt, dueAt }: Stored): void {
    expect(found).to.have.length(1);
    const { name, state, data, nextRunAt, ...more } = found[0] as JobWithState;
    expect({ name, state, data }).to.deep.equal({
      name: 'delivery attempt',
      state: 'scheduled',
      data: { deliveryId: _id, webhookId, userId, attempt },
    });
    // at the beginning of a second; a busy machine takes its time between the end of the attempt and its record
    expect(Number(nextRunAt)).to.be.within(Number(dueAt) - 5_000, Number(dueAt));
    for (const unset of ['lockedAt', 'lastRunAt', 'lastFinishedAt', 'failedAt', 'failCount', 'failReason'] as const) {
      expect(more[unset], unset).to.equal(undefined);
    }
  }
  const storedOne = async () => (await scene.stored.findOne()) as Stored;
  /** Makes the next attempt due now, for a sweep to find. */
  const makeDue = () => scene.stored.updateOne({}, [{ $set: { dueAt: '$$NOW', claimableAt: '$$NOW' } }]);

  it('show the retry that a delivery waits for, whatever its number', async () => {
    await open({ retryDelays: [20, 20, hour] }, 500);
    await scene.webhook(receiver.url);
    await scene.published(hasAttempts(3));
    await jobsOnce((found) => found.some(({ data }) => (data as { attempt: number }).attempt === 4));
    expectJobOf(await jobsOnce((found) => found.length === 1), await storedOne());
    const [overview] = await stock.getJobsOverview();

    expect(overview).to.include({ name: 'delivery attempt', total: 1, scheduled: 1, running: 0, failed: 0 });
  });

  it('show nothing of a delivery that was delivered or has failed', async () => {
    await open({ retryDelays: [2_500, 20] }, 500, 200, 500);
    await scene.webhook(receiver.url);
    const { attempts } = await scene.published(({ state }) => state === 'delivered');
    const failed = await scene.published(({ state }) => state === 'failed');
    await jobsOnce(none);

    expect([attempts.length, failed.attempts.length]).to.deep.equal([2, 3]);
  });

  it('show the retry as it was after a resend that fails, and after one that succeeds no longer than until its time', async () => {
    await open({ retryDelays: [6_000] }, 500);
    await scene.webhook(receiver.url);
    const { id } = await scene.published(hasAttempts(1));
    const [before] = await jobsOnce((found) => found.length === 1);
    await scene.call('POST', `/v1/deliveries/${id}/resend`);
    const [after] = await jobs();
    expect(after).to.deep.equal(before);
    expectJobOf([after as JobWithState], await storedOne());
    receiver.answers(200);
    await scene.call('POST', `/v1/deliveries/${id}/resend`);
    await jobsOnce(none);

    const { state, attempts } = await scene.delivery(id);
    expect([state, attempts.length]).to.deep.equal(['delivered', 3]);
  });

  it('show a job for every attempt that waits, at its time or up to a second before, and one for many', async () => {
    await open({ retryDelays: [20, hour] }, 500);
    await Promise.all([1, 2, 3].map(() => scene.webhook(receiver.url)));
    const ids = Array.from({ length: 20 }, async (_, i) => {
      // over some seconds
      await new Promise((resolve) => setTimeout(resolve, i * 100));
      await scene.gateway.publish(low);
    });
    await Promise.all(ids);
    const waiting = () => scene.stored.find({ state: 'pending', attempt: 3 }).toArray();
    const deliveries = await eventually(waiting, (found) => found.length === 60);
    const isCovered = (found: JobWithState[], dueAt: Date) =>
      found.some(({ nextRunAt }) => Number(nextRunAt) <= Number(dueAt) && Number(nextRunAt) > Number(dueAt) - 5_000);
    const found = await jobsOnce((found) => deliveries.every(({ dueAt }) => isCovered(found, dueAt)));

    const seconds = new Set(found.map(({ nextRunAt }) => Math.floor(Number(nextRunAt) / 1_000)));
    expect(found).to.have.length(seconds.size);
    expect(found.length).to.be.below(20);
  });

  it('show the retry of a webhook that was deleted until it is canceled', async () => {
    await open({ retryDelays: [4_000] }, 500);
    const webhookId = await scene.webhook(receiver.url);
    const { id } = await scene.published(hasAttempts(1));
    await jobsOnce((found) => found.length === 1);
    await scene.call('DELETE', `/v1/webhooks/${webhookId}`);
    const [job] = await jobs();
    const canceled = await scene.delivery(id, ({ state }) => state === 'canceled');
    await jobsOnce(none);

    expect(job?.state).to.equal('scheduled');
    expect(canceled.attempts).to.have.length(1);
  });

  it('show nothing of due attempts that wait for a place, which begin without a job', async () => {
    const held: (() => void)[] = [];
    let isHeld = true;
    const holdBack: Answer = (res) => {
      const answer = () => void res.writeHead(200).end();
      if (isHeld) held.push(answer);
      else answer();
    };
    await open({ retryDelays: [hour], deliveries: { concurrency: 1 } }, holdBack);
    await scene.webhook(receiver.url);
    const published = 12;
    for (let i = 0; i < published; i += 1) {
      await scene.gateway.publish({
        type: 'credits.low',
        userId: 'usr_1',
        data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
      });
    }
    const waiting = () => scene.stored.countDocuments({ state: 'pending', lease: null });
    expect(await eventually(waiting, (count) => count > 0)).to.be.above(0);
    expect(await jobs()).to.deep.equal([]);
    isHeld = false;
    for (const answer of held) answer();
    await receiver.count(published);
    expect(await jobs()).to.deep.equal([]);
  });

  it('may remove every job: the sweep still starts the retry', async () => {
    await open({ retryDelays: [hour] }, 500, 200);
    await scene.webhook(receiver.url);
    const { id } = await scene.published(hasAttempts(1));
    await jobsOnce((found) => found.length === 1);
    await stock.cancelAll();
    expect(await jobs()).to.deep.equal([]);
    await makeDue();

    expect((await scene.delivery(id, ({ state }) => state !== 'pending')).state).to.equal('delivered');
  });
});
