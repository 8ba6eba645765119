import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { verifySignature } from '../../../src/receiver/index.ts';
import { type Scene, secret, startScene } from '../over-http.ts';
import { hang, startReceiver, type TestReceiver } from '../receiver.ts';

const isFailed = ({ state }: { state: string }) => state === 'failed';
const firstFailed = ({ attempts_made }: { attempts_made: number }) => attempts_made === 1;
const inFlight = ({ in_flight }: { in_flight: boolean }) => in_flight;

describe('A delivery that is resent', () => {
  let scene: Scene;
  let receiver: TestReceiver;
  let webhookId: string;

  async function start(retryDelays: number[]) {
    scene = await startScene({ retryDelays });
    webhookId = await scene.webhook(receiver.url);
  }
  const resend = (id: string) => scene.call('POST', `/v1/deliveries/${id}/resend`);

  beforeEach(async () => {
    receiver = await startReceiver(500);
  });
  afterEach(async () => {
    await scene.close();
    await receiver.stop();
  });

  it('changes from failed to delivered by a 2xx, with the same body and a valid signature', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    receiver.answers(200);
    const { status, body } = await resend(id);

    expect(status).to.equal(200);
    expect(body).to.include({ state: 'delivered', in_flight: false, last_status: 200, last_code: null });
    expect(body).to.include({ attempts_made: 1, next_attempt_at: null, url: receiver.url });
    const [scheduled, manual] = body.attempts;
    expect(scheduled).to.include({ number: 1, manual: false, status: 500, code: 'http_500', response: 'answered 500' });
    expect(scheduled.explanation).to.match(/^The receiver answered with this status/);
    expect(manual).to.include({ number: null, manual: true, status: 200, code: null, response: 'answered 200' });
    const [first, second] = receiver.received;
    expect(second?.body).to.deep.equal(first?.body);
    expect(second?.body.toString()).to.equal(body.body);
    expect(verifySignature(second?.body ?? '', String(second?.headers['x-service-signature']), secret)).to.equal(true);
  });

  it('shows the headers that were sent, but no signature', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    const { attempts } = (await resend(id)).body;

    for (const [i, { request_headers }] of attempts.entries()) {
      expect(request_headers).to.have.all.keys('content-type', 'user-agent', 'webhook-id', 'webhook-timestamp');
      expect(receiver.received[i]?.headers).to.include(request_headers);
    }
  });

  it('keeps its state, numbering and next attempt after a failure', async () => {
    await start([4_000, 0]);
    const before = await scene.published(firstFailed);
    const { status, body } = await resend(before.id);

    expect(status).to.equal(200);
    expect(body.attempts.map(({ number }: { number: number | null }) => number)).to.deep.equal([1, null]);
    const { state, next_attempt_at, schedule, attempts_made } = before;
    expect(body).to.deep.include({ state, next_attempt_at, schedule, attempts_made });
    const after = await scene.delivery(before.id, isFailed);
    expect(after.attempts.map(({ number }: { number: number | null }) => number)).to.deep.equal([1, null, 2, 3]);
    const [, , second] = after.attempts;
    expect(Date.parse(second.started_at)).to.be.at.least(Date.parse(next_attempt_at));
  });

  it('stays failed or canceled after a failure', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    expect((await resend(id)).body.state).to.equal('failed');
    await scene.stored.updateOne({ _id: id }, { $set: { state: 'canceled', reason: 'webhook_inactive' } });
    expect((await resend(id)).body).to.include({ state: 'canceled', reason: 'webhook_inactive' });
    receiver.answers(204);
    expect((await resend(id)).body).to.include({ state: 'delivered', reason: null });
  });

  it('is not attempted again once a resend has delivered it', async () => {
    await start([4_000, 0]);
    const { id } = await scene.published(firstFailed);
    receiver.answers(200);
    expect((await resend(id)).body).to.deep.include({ state: 'delivered', schedule: [] });
    // shows that the scheduled attempt is not made
    await sleep(4_200);

    expect(receiver.received).to.have.length(2);
    expect(await scene.stored.findOne({ _id: id })).to.not.have.any.keys('claimableAt', 'manual');
  });

  it('is refused while a scheduled attempt or another resend is in flight', async () => {
    await start([]);
    receiver.answers(hang);
    const { id } = await scene.published(inFlight);
    const refused = await resend(id);
    expect([refused.status, refused.body.error.code]).to.deep.equal([409, 'attempt_in_flight']);

    await scene.stored.updateOne({ _id: id }, { $set: { state: 'failed', lease: null }, $unset: { claimableAt: 1 } });
    const first = resend(id);
    await receiver.count(2);
    expect((await scene.delivery(id)).in_flight).to.equal(true);
    expect((await resend(id)).body.error.code).to.equal('attempt_in_flight');
    await receiver.stop();
    expect((await first).body.attempts.at(-1)).to.include({ manual: true, code: 'reset' });
  });

  it('is sent once by twenty resends at the same moment', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    let answer = () => {};
    receiver.answers((res) => {
      answer = () => res.writeHead(200).end();
    });
    let refusals = 0;
    const asked = Array.from({ length: 20 }, async () => {
      const answered = await resend(id);
      if (answered.status === 409 && ++refusals === 19) answer();
      return answered;
    });
    const answers = await Promise.all(asked);

    expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
    expect(answers.filter(({ body }) => body.error?.code === 'attempt_in_flight')).to.have.length(19);
    expect(receiver.received).to.have.length(2);
  });

  it('never overlaps with its scheduled attempts, of which there are six and no seventh', async () => {
    await start([30, 30, 30, 30, 30]);
    let underWay = 0;
    let most = 0;
    receiver.answers(async (res) => {
      underWay += 1;
      most = Math.max(most, underWay);
      // the receiver answers slowly on purpose
      await sleep(25);
      underWay -= 1;
      res.writeHead(500).end();
    });
    const { id } = await scene.published(() => true);
    let manual = 0;
    while ((await scene.delivery(id)).state === 'pending') {
      // of those that were asked for no more than 50 are kept
      const asked = manual < 40 ? [resend(id), resend(id)] : [];
      // the pace of the resends
      const answers = await Promise.all([...asked, sleep(20)]);
      manual += answers.filter((answer) => answer?.status === 200).length;
    }
    // shows that nothing more happens
    await sleep(200);

    const { attempts } = await scene.delivery(id);
    const numbers = attempts.map(({ number }: { number: number | null }) => number);
    expect(numbers.filter((number: number | null) => number !== null)).to.deep.equal([1, 2, 3, 4, 5, 6]);
    expect(numbers.filter((number: number | null) => number === null)).to.have.length(manual);
    expect(manual).to.be.at.least(1);
    expect(receiver.received).to.have.length(6 + manual);
    expect(most).to.equal(1);
  });

  it('can be resent after the process that resent it has died, and its next attempt is not early', async () => {
    await start([4_000]);
    const { id, next_attempt_at } = await scene.published(firstFailed);
    const due = new Date(next_attempt_at);
    const dead = { owner: 'wrk_dead', token: 'gone', startedAt: new Date(), until: new Date(Date.now() - 1) };
    await scene.stored.updateOne({ _id: id }, { $set: { manual: dead, claimableAt: due } });
    expect((await resend(id)).body.attempts).to.have.length(2);
    const { attempts } = await scene.delivery(id, isFailed);

    expect(attempts).to.have.length(3);
    expect(Date.parse(attempts[2].started_at)).to.be.at.least(due.getTime());
  });

  it('keeps every scheduled attempt and the last fifty manual ones', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    const manual = Array.from({ length: 50 }, (_, i) => ({
      startedAt: new Date(Date.now() + i),
      manual: true as const,
      durationMs: i,
      response: '',
    }));
    await scene.stored.updateOne({ _id: id }, { $push: { attempts: { $each: manual } } });
    // the last of these begins in 49 ms
    await sleep(60);
    const { attempts } = (await resend(id)).body;

    expect(attempts).to.have.length(51);
    expect(attempts[0].number).to.equal(1);
    expect(attempts[1].duration_ms).to.equal(1);
    expect(attempts.at(-1).status).to.equal(500);
  });

  it('is refused while its webhook is paused, and when its webhook or event is deleted', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    const code = async () => {
      const { status, body } = await resend(id);
      return [status, body.error.code];
    };
    await scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active: false });
    expect(await code()).to.deep.equal([409, 'webhook_inactive']);
    await scene.call('PATCH', `/v1/webhooks/${webhookId}`, { active: true });
    await scene.connection.collection('gateway_events').deleteMany({});
    expect(await code()).to.deep.equal([409, 'event_deleted']);
    await scene.call('DELETE', `/v1/webhooks/${webhookId}`);
    expect(await code()).to.deep.equal([409, 'webhook_deleted']);
    expect(await scene.delivery(id)).to.include({ url: null, body: '', in_flight: false });
    expect(receiver.received).to.have.length(1);
  });

  it('is unknown to another account', async () => {
    await start([]);
    const { id } = await scene.published(isFailed);
    const { key } = await scene.gateway.keys.create({ userId: 'usr_2' });
    for (const [method, path] of [
      ['GET', `/v1/deliveries/${id}`],
      ['POST', `/v1/deliveries/${id}/resend`],
    ] as const) {
      const response = await fetch(scene.url + path, { method, headers: { authorization: `Bearer ${key}` } });
      const { error } = (await response.json()) as { error: object };
      expect(error).to.include({ code: 'delivery_not_found' });
    }
    const list = await fetch(`${scene.url}/v1/deliveries`, { headers: { authorization: `Bearer ${key}` } });
    expect(await list.json()).to.deep.equal({ data: [], has_more: false });
    expect(receiver.received).to.have.length(1);
  });
});
