import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createKeyModel } from '../../../src/keys/model.ts';
import { createKeyService } from '../../../src/keys/service.ts';
import { isUnavailable } from '../../../src/mongo/unavailable.ts';
import { createSealer, keyIdsExcept } from '../../../src/webhooks/secrets.ts';
import { type Cluster, startCluster } from '../../faults/cluster/cluster.ts';
import { makeStale, type StalePrimary } from '../../support/database/stale-primary.ts';
import { valid, webhookService, webhookServiceOf } from '../../webhooks/support.ts';

const userId = 'usr_1';
const sealer = createSealer([`k1:${randomBytes(32).toString('base64')}`]);

/** The services alone at one primary: nothing is published, nothing joined in a transaction. */
function servicesAt(connection: Connection) {
  const keys = createKeyService({
    keys: createKeyModel(connection, 'gateway_'),
    publish: async () => {},
    transaction: (fn) => fn(undefined),
    onLastUsedLost() {},
  });
  return { webhooks: webhookServiceOf(connection, { sealer }).service, keys };
}

type Services = ReturnType<typeof servicesAt>;

describe('Where a primary was replaced', function () {
  this.timeout(120_000);
  let cluster: Cluster;
  let stale: StalePrimary;
  let current: Services;
  let outdated: Services;
  /** A webhook and two keys that the replaced primary does not know, and a webhook that it knows as inactive. */
  let made: string;
  let resumed: string;
  const keyIds: string[] = [];
  const keyTexts: string[] = [];

  before(async () => {
    cluster = await startCluster();
    await webhookService(cluster.connection, { sealer });
    current = servicesAt(cluster.connection);
    resumed = (await current.webhooks.create(userId, valid)).id;
    await current.webhooks.update(userId, resumed, { active: false });
    const notes = cluster.connection.getClient().db(cluster.connection.name).collection('notes');
    await notes.insertOne({}, { writeConcern: { w: 3, wtimeout: 30_000 } });
    stale = await makeStale(cluster);
    made = (await current.webhooks.create(userId, valid)).id;
    await current.webhooks.update(userId, resumed, { active: true });
    for (let i = 0; i < 2; i += 1) {
      const { id, key } = await current.keys.create({ userId });
      keyIds.push(id);
      keyTexts.push(key);
    }
    outdated = servicesAt(stale.connection);
  });
  after(async () => {
    await stale?.end();
    await cluster?.stop();
  });

  const isActive = ({ active }: { active: boolean }) => active;
  const asks: [what: string, ask: (services: Services) => Promise<unknown>, answer?: unknown][] = [
    ['a webhook is not read', ({ webhooks }) => webhooks.get(userId, made)],
    ['a webhook is not changed', ({ webhooks }) => webhooks.update(userId, made, { active: true })],
    ['a webhook is not given a secret', ({ webhooks }) => webhooks.rotateSecret(userId, made, {})],
    ['a webhook is not tested or recovered', ({ webhooks }) => webhooks.getConfirmed(userId, resumed, isActive)],
    ['a webhook is not sent an event', ({ webhooks }) => webhooks.forDelivery(made)],
    ['a webhook is not sent what it had missed', ({ webhooks }) => webhooks.forDelivery(resumed, isActive)],
    ['a webhook is not deleted', ({ webhooks }) => webhooks.remove(userId, made)],
    ['a key is not revoked with its account', ({ keys }) => keys.revoke(String(keyIds[0]), userId), true],
    ['a key is not revoked without its account', ({ keys }) => keys.revoke(String(keyIds[1]), undefined), true],
  ];
  for (const [what, ask, answer] of asks) {
    it(`${what} but unavailable for the moment; through the new primary it is`, async () => {
      const started = performance.now();
      const error = await ask(outdated).then(
        (answered) => expect.fail(`it answered ${answered}`),
        (reason: unknown) => reason,
      );
      expect(isUnavailable(error), String(error)).to.equal(true);
      expect(performance.now() - started).to.be.below(4_500);
      const answered = await ask(current);
      if (answer !== undefined) expect(answered).to.equal(answer);
    });
  }

  it('a key that was revoked through the new primary is refused', async () => {
    for (const key of keyTexts) expect(await current.keys.authenticate(key)).to.equal(null);
  });

  it('a sealing key stays in use: the replaced primary does not report the key as unused', async () => {
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

  it('a webhook costs one linearizable read when 500 deliveries ask at once', async () => {
    const confirmed = async () => {
      const { readConcernCounters } = await cluster.admin.command({ serverStatus: 1 });
      return Number(readConcernCounters.nonTransactionOps.linearizable);
    };
    const before = await confirmed();
    const found = await Promise.all(
      Array.from({ length: 500 }, () => current.webhooks.forDelivery(resumed, () => false)),
    );
    expect(found.filter((webhook) => webhook && 'id' in webhook && webhook.id === resumed)).to.have.length(500);
    expect((await confirmed()) - before).to.equal(1);
  });

  it('a webhook is not found once it is deleted at the new primary', async () => {
    const { webhooks } = current;
    const again: Record<string, () => Promise<unknown>> = {
      read: () => webhooks.get(userId, made),
      changed: () => webhooks.update(userId, made, { active: true }),
      'given a secret': () => webhooks.rotateSecret(userId, made, {}),
      deleted: () => webhooks.remove(userId, made),
    };
    for (const [what, ask] of Object.entries(again)) {
      const error = await ask().catch((reason) => reason);
      expect(error, what).to.include({ code: 'webhook_not_found' });
    }
    expect(await webhooks.forDelivery(made)).to.equal(null);
  });
});
