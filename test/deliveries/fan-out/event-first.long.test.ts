import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import type { DeliveryDocument } from '../../../src/deliveries/model.ts';
import { createEventModel, type EventDocument } from '../../../src/events/model.ts';
import { createClaimEvents } from '../../../src/events/outbox.ts';
import type { ModelGateway } from '../../../src/index.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import type { CrashPoint } from '../../faults/workers/crash-points.ts';
import { createGateway, loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { createAuthority } from '../../support/servers/certificates.ts';
import { eventually } from '../../support/until.ts';
import { low } from '../over-http.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';
import { startSlowHandshakes } from '../slow-handshakes.ts';

const script = fileURLToPath(new URL('./crashing-process.ts', import.meta.url));

describe('An event whose first attempts are made before its deliveries are stored', function () {
  this.timeout(60_000);
  const { logger: _, ...loopback } = loopbackOptions;
  const options = { ...loopback, secretKeys: [newSecretKey()], deliveries: { sweepInterval: 50 } };
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let other: ModelGateway;
  let receiver: TestReceiver;
  const children: ChildProcess[] = [];

  beforeEach(async () => {
    database = await freshDatabase();
    other = await createGateway({ ...options, mongo: database.connection });
    receiver = await startReceiver(200);
    await other.webhooks.create('usr_1', { url: receiver.url, events: ['credits.low'], secret: 'long-enough' });
  });
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
    await other.close();
    await receiver.stop();
    await database.drop();
  });

  const events = () => database.connection.collection<EventDocument>('gateway_events');
  const deliveries = () => database.connection.collection<DeliveryDocument>('gateway_deliveries');
  const ended = (count: number) =>
    eventually(
      () =>
        deliveries()
          .find({ state: { $ne: 'pending' } })
          .toArray(),
      ({ length }) => length === count,
    );
  const allMarked = () =>
    eventually(
      () => events().countDocuments({ fanOut: 'pending' }),
      (left) => left === 0,
    );

  /** A worker that publishes so many events, and dies when it has come to a point so many times. */
  async function publisher(count: number, point?: CrashPoint, env = process.env, after = 1): Promise<ChildProcess> {
    const config = {
      uri: database.uri,
      options,
      events: Array(count).fill(low),
      ...(point && { crash: { point, after } }),
    };
    const child = await forkCompiled(script, config, { env });
    children.push(child);
    await once(child, 'message');
    child.send('publish');
    return child;
  }

  /**
   * A worker that publishes an event and is stopped as soon as its attempt has begun. After a quarter of a second it stores the
   * delivery: one that a busy machine stopped later than that is replaced.
   * @param begun resolves when the attempt has begun @param forget undoes that
   */
  async function stoppedPublisher(begun: () => Promise<unknown>, forget: () => void, env = process.env) {
    for (let left = 5; ; left -= 1) {
      const child = await publisher(1, undefined, env);
      await begun();
      child.kill('SIGSTOP');
      const stored = await deliveries().countDocuments();
      if (stored === 0) return child;
      if (left === 0) throw new Error('it was never stopped before it had stored anything');
      child.kill('SIGKILL');
      await once(child, 'exit');
      await Promise.all([events().deleteMany({}), deliveries().deleteMany({})]);
      forget();
    }
  }

  it('ends with the attempt that is its first write, by the same clock', async function () {
    // a process or database that stands still for a quarter of a second stores the delivery before its outcome
    this.retries(3);
    await other.start();
    for (let i = 0; i < 3; i += 1) await other.publish(low);
    for (const { starts, attempts, endedAt } of await ended(3)) {
      expect(starts).to.equal(0);
      expect(attempts.map(({ startedAt, durationMs }) => startedAt.getTime() + durationMs)).to.deep.equal([
        endedAt?.getTime(),
      ]);
    }
  });

  it('is delivered even if its publisher was killed between inserting the event and the first outcome', async () => {
    const child = await publisher(1, 'after publish');
    await once(child, 'exit');
    expect(await events().countDocuments()).to.equal(1);
    expect(await deliveries().countDocuments()).to.equal(0);
    await other.start();
    const [delivery] = await ended(1);

    expect(delivery).to.include({ state: 'delivered' });
    expect(delivery?.attempts).to.have.length(1);
    await allMarked();
  });

  it('reaches every webhook even if its publisher was killed before its look-up of them was answered', async () => {
    const child = await publisher(1, 'after publish', process.env, 2);
    await ended(1);
    await allMarked();
    const [webhook] = (await other.webhooks.list('usr_1')).webhooks;
    const added = await other.webhooks.create('usr_1', {
      url: receiver.url,
      events: ['credits.low'],
      secret: 'long-enough',
    });
    const namespace = `${database.connection.name}.gateway_webhooks`;
    // longer than the write of the event takes
    const data = { namespace, failCommands: ['find'], blockConnection: true, blockTimeMS: 5_000 };
    const admin = database.connection.getClient().db('admin');
    await admin.command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data });
    child.send('publish');
    await once(child, 'exit');
    const left = (await events().findOne({ fanOut: 'pending' })) ?? expect.fail('its event was not stored');
    expect(left).to.deep.include({ targets: [webhook?.id], lookupElection: 'none' });
    await other.start();
    await ended(3);
    await allMarked();

    const made = await deliveries().find({ eventId: left._id }).toArray();
    expect(made.map(({ webhookId }) => webhookId)).to.have.members([webhook?.id, added.id]);
    expect(receiver.received).to.have.length(3);
  });

  it('is sent once even if its publisher was killed before it marked the event as done', async () => {
    const child = await publisher(1, 'after outcome');
    await once(child, 'exit');
    expect(await deliveries().countDocuments({ state: 'delivered' })).to.equal(1);
    expect(await events().countDocuments({ fanOut: 'pending' })).to.equal(1);
    await other.start();
    await allMarked();

    expect(await deliveries().countDocuments()).to.equal(1);
    expect(receiver.received).to.have.length(1);
  });

  for (const [what, answers, attempts] of [
    ['is delivered by the 2xx that it finds, even if others have failed meanwhile', [null, 500], 1],
    ['stays as it is when others have delivered it meanwhile', [null, 200], 1],
  ] as const) {
    it(`of a process that was stopped during an attempt and woken after the lease ${what}`, async () => {
      let answer = () => {};
      receiver.answers((res) => {
        answer = () => void res.end('taken');
      }, answers[1]);
      const child = await stoppedPublisher(
        () => receiver.count(1),
        () => {
          receiver.received.length = 0;
        },
      );
      await other.start();
      await receiver.count(2);
      const before = await eventually(
        () => deliveries().findOne(),
        (found) => found?.attempts.length === attempts,
      );
      answer();
      child.kill('SIGCONT');
      const [delivery] = await ended(1);
      child.send('close');
      await once(child, 'exit');

      expect(delivery).to.include({ state: 'delivered', lease: null });
      expect(delivery?.attempts).to.have.length(1);
      expect(delivery?.attempts[0]).to.include({ number: 1, status: 200 });
      if (answers[1] === 200) expect(await deliveries().findOne()).to.deep.equal(before);
      else expect(delivery?.attempts[0]).to.include({ response: 'taken' });
      await allMarked();
    });
  }

  it('is not sent by a process that was stopped before its first byte, and woken after the lease', async () => {
    const authority = createAuthority();
    const folder = mkdtempSync(join(tmpdir(), 'event-first-'));
    writeFileSync(join(folder, 'ca.pem'), authority.cert);
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') };
    const slow = await startSlowHandshakes(authority.issue({ name: 'localhost' }));
    try {
      const [webhook] = (await other.webhooks.list('usr_1')).webhooks;
      await other.webhooks.remove('usr_1', webhook?.id ?? '');
      await other.webhooks.create('usr_1', { url: slow.url, events: ['credits.low'], secret: 'long-enough' });
      const hasBegun = () =>
        eventually(
          async () => slow.kept.size,
          (kept) => kept === 1,
        );
      const stopped = await stoppedPublisher(hasBegun, slow.forget, env);
      slow.keepNoMore();
      const beside = await publisher(0, undefined, env);
      const [before] = await ended(1);
      slow.release();
      stopped.kill('SIGCONT');
      for (const child of [stopped, beside]) {
        child.send('close');
        await once(child, 'exit');
      }

      expect(slow.arrivals).to.have.length(1);
      expect(before).to.include({ state: 'delivered' });
      expect(await deliveries().find().toArray()).to.deep.equal([before]);
    } finally {
      await slow.stop();
      rmSync(folder, { recursive: true });
    }
  });

  it('is taken by only one of two sweeps at the same moment', async () => {
    await Promise.all(Array.from({ length: 50 }, () => other.publish(low)));
    const keys = (await events().find().toArray()).map(({ _id, userId }) => ({ _id, userId }));
    const model = createEventModel(database.connection, 'gateway_');
    const claim = () => createClaimEvents(model, createDatabaseClock(database.connection));
    const [one, two] = [claim(), claim()];
    const lease = 5_000;
    const [first, second] = await Promise.all([one(keys, lease), two(keys, lease)]);
    const taken = [...first, ...second].map(({ event }) => event._id);

    expect(taken).to.have.members(keys.map(({ _id }) => _id));
    expect([...first, ...second].map(({ lease }) => lease?.isFirst)).to.deep.equal(Array(50).fill(true));
    expect(await one(keys, lease), 'as long as they are held').to.deep.equal([]);
    const later = await eventually(
      () => two(keys, lease),
      ({ length }) => length > 0,
    );
    expect(later[0]?.lease?.isFirst, 'attempts may have been made').to.equal(false);
  });

  it('is sent once by several workers that sweep at the same time', async () => {
    await Promise.all(Array.from({ length: 100 }, () => other.publish(low)));
    await Promise.all([publisher(0), publisher(0), other.start()]);
    await ended(100);
    await allMarked();

    expect(receiver.received).to.have.length(100);
    expect(await deliveries().countDocuments()).to.equal(100);
  });
});
