import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { createSealer, keyIdsExcept } from '../../src/webhooks/secrets.ts';
import type { WebhookService } from '../../src/webhooks/service.ts';
import { type Cluster, startCluster } from '../faults/cluster/cluster.ts';
import { makeStale, type StalePrimary } from '../support/database/stale-primary.ts';
import { valid, webhookService, webhookServiceOf } from './support.ts';

describe('A webhook that a replaced primary does not know, or knows as inactive', function () {
  this.timeout(120_000);
  const userId = 'usr_1';
  const sealer = createSealer([`k1:${randomBytes(32).toString('base64')}`]);
  let cluster: Cluster;
  let stale: StalePrimary;
  let current: WebhookService;
  let outdated: WebhookService;
  let made: string;
  let resumed: string;

  before(async () => {
    cluster = await startCluster();
    current = (await webhookService(cluster.connection, { sealer })).service;
    resumed = (await current.create(userId, valid)).id;
    await current.update(userId, resumed, { active: false });
    const notes = cluster.connection.getClient().db(cluster.connection.name).collection('notes');
    await notes.insertOne({}, { writeConcern: { w: 3, wtimeout: 30_000 } });
    stale = await makeStale(cluster);
    made = (await current.create(userId, valid)).id;
    await current.update(userId, resumed, { active: true });
    outdated = webhookServiceOf(stale.connection, { sealer }).service;
  });
  after(async () => {
    await stale?.end();
    await cluster?.stop();
  });

  const isActive = ({ active }: { active: boolean }) => active;
  const asks: [string, (service: WebhookService) => Promise<unknown>][] = [
    ['read', (service) => service.get(userId, made)],
    ['changed', (service) => service.update(userId, made, { active: true })],
    ['given a secret', (service) => service.rotateSecret(userId, made, {})],
    ['tested or recovered', (service) => service.getConfirmed(userId, resumed, isActive)],
    ['sent an event', (service) => service.forDelivery(made)],
    ['sent what it had missed', (service) => service.forDelivery(resumed, isActive)],
    ['deleted', (service) => service.remove(userId, made)],
  ];
  for (const [what, ask] of asks) {
    it(`is not ${what} but unavailable for the moment, and is ${what} through the new primary`, async () => {
      const started = performance.now();
      const error = await ask(outdated).then(
        () => expect.fail('it succeeded'),
        (reason: unknown) => reason,
      );
      expect(isUnavailable(error), String(error)).to.equal(true);
      expect(performance.now() - started).to.be.below(4_500);
      await ask(current);
    });
  }

  it('keeps its key in use: the replaced primary does not report the key as unused', async () => {
    const next = createSealer([`k2:${randomBytes(32).toString('base64')}`]);
    await webhookServiceOf(cluster.connection, { sealer: next }).service.create(userId, valid);
    const isUsed = (connection: typeof stale.connection) =>
      keyIdsExcept(webhookServiceOf(connection, { sealer }).webhooks, ['k1']);
    const error = await isUsed(stale.connection).then(
      () => expect.fail('it succeeded'),
      (reason: unknown) => reason,
    );
    expect(isUnavailable(error), String(error)).to.equal(true);
    expect(await isUsed(cluster.connection)).to.deep.equal(['k2']);
  });

  it('costs one linearizable read when 500 deliveries ask at once', async () => {
    const confirmed = async () => {
      const { readConcernCounters } = await cluster.admin.command({ serverStatus: 1 });
      return Number(readConcernCounters.nonTransactionOps.linearizable);
    };
    const before = await confirmed();
    const found = await Promise.all(Array.from({ length: 500 }, () => current.forDelivery(resumed, () => false)));
    expect(found.filter((webhook) => webhook && 'id' in webhook && webhook.id === resumed)).to.have.length(500);
    expect((await confirmed()) - before).to.equal(1);
  });

  it('is not found once it is deleted at the new primary', async () => {
    for (const [what, ask] of asks.filter(([name]) =>
      ['read', 'changed', 'given a secret', 'deleted'].includes(name),
    )) {
      const error = await ask(current).catch((reason) => reason);
      expect(error, what).to.include({ code: 'webhook_not_found' });
    }
    expect(await current.forDelivery(made)).to.equal(null);
  });
});
