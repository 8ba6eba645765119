import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import mongoose, { type ClientSession, type Connection } from 'mongoose';
import { createKeyModel } from '../../src/keys/model.ts';
import { createKeyService } from '../../src/keys/service.ts';
import { durableTransaction } from '../../src/mongo/collection.ts';
import { findAllConfirmed, findConfirmed, findOneConfirmed } from '../../src/mongo/confirmed-reads.ts';
import { createSealer, requireEveryKey } from '../../src/webhooks/secrets.ts';
import { valid, webhookService, webhookServiceOf } from '../webhooks/support.ts';
import { expectUnavailable, type Row, type Scene } from './harness.ts';

const userId = 'usr_1';
const sealer = createSealer([`k1:${randomBytes(32).toString('base64')}`]);
const within = 4_500;

/** The services alone at one primary: nothing is published, and no transaction is repeated. */
function servicesAt(connection: Connection) {
  async function transaction<T>(fn: (session: ClientSession) => Promise<T>): Promise<T> {
    const session = connection.getClient().startSession();
    try {
      session.startTransaction(durableTransaction);
      const result = await fn(session);
      await session.commitTransaction();
      return result;
    } finally {
      await session.endSession();
    }
  }
  const keys = createKeyService({
    keys: createKeyModel(connection, 'gateway_'),
    publish: async () => {},
    transaction,
    onLastUsedLost() {},
  });
  return { webhooks: webhookServiceOf(connection, { sealer }).service, keys };
}

type Services = ReturnType<typeof servicesAt>;

async function openServices({ connection, stale }: Scene) {
  await webhookService(connection, { sealer });
  // transactions that make it at the same moment conflict
  await createKeyModel(connection, 'gateway_').createCollection();
  return { current: servicesAt(connection), outdated: servicesAt(stale) };
}

/** The same, where the replaced primary is asked one thing after the other: the first commands of all calls come before the second of any. */
async function openInTurn({ staleUri, ...scene }: Scene) {
  const stale = await mongoose.createConnection(staleUri, { maxPoolSize: 1, monitorCommands: true }).asPromise();
  scene.defer(() => stale.close());
  /** The commands that the replaced primary has confirmed. */
  const confirmed: string[] = [];
  stale.getClient().on('commandSucceeded', ({ commandName, reply }) => {
    if (!(reply as { writeConcernError?: object }).writeConcernError) confirmed.push(commandName);
  });
  return { ...(await openServices({ ...scene, stale, staleUri })), confirmed };
}

/** An account's own webhook that only the new primary has. */
const webhook = (
  subject: string,
  ask: (services: Services['webhooks'], id: string, of: string) => Promise<unknown>,
  afterwards?: 'is not found',
): Row => ({
  fault: 'a replaced primary',
  subject: `a webhook that is ${subject}`,
  written: 'made through the new primary',
  holds: `unavailable for the moment, then ${subject} through the new one, and not found once deleted there`,
  async show(stage) {
    const { current, outdated } = await stage.scene(openServices);
    const of = `usr_${subject}`;
    await stage.fault();
    const { id } = await current.webhooks.create(of, valid);
    await expectUnavailable(within, ask(outdated.webhooks, id, of));
    await ask(current.webhooks, id, of);
    if (subject !== 'deleted') await current.webhooks.remove(of, id);
    const again = await ask(current.webhooks, id, of).catch((error) => error);
    if (afterwards) expect(again).to.include({ code: 'webhook_not_found' });
    else expect(again).to.equal(null);
  },
});

const isActive = ({ active }: { active: boolean }) => active;

/** An account's webhook that the new primary has as active. */
const resumed = (
  subject: string,
  ask: (services: Services['webhooks'], id: string, of: string) => Promise<unknown>,
): Row => ({
  fault: 'a replaced primary',
  subject: `a webhook that is ${subject}`,
  written: 'made active through the new primary',
  holds: `unavailable for the moment, and ${subject} through the new one`,
  async show(stage) {
    const { current, outdated } = await stage.scene(openServices);
    const of = `usr_${subject}`;
    const { id } = await current.webhooks.create(of, valid);
    await current.webhooks.update(of, id, { active: false });
    await stage.fault();
    await current.webhooks.update(of, id, { active: true });
    await expectUnavailable(within, ask(outdated.webhooks, id, of));
    await ask(current.webhooks, id, of);
  },
});

const key = (subject: string, of?: string): Row => ({
  fault: 'a replaced primary',
  subject: `a key that is revoked ${subject}`,
  written: 'made through the new primary',
  holds: 'unavailable for the moment; revoked through the new one it is refused',
  async show(stage) {
    const { current, outdated } = await stage.scene(openServices);
    await stage.fault();
    const { id, key } = await current.keys.create({ userId });
    await expectUnavailable(within, outdated.keys.revoke(id, of));
    expect(await current.keys.revoke(id, of)).to.equal(true);
    expect(await current.keys.authenticate(key)).to.equal(null);
  },
});

interface Thing {
  _id: string;
  owner: string;
}

const thing = (id: string): Thing => ({ _id: id, owner: 'ada' });

async function openThings({ connection, stale }: Scene) {
  const thingsAt = (where: Connection) => where.getClient().db(where.name).collection<Thing>('things');
  await thingsAt(connection).insertOne(thing('old'));
  return { current: thingsAt(connection), outdated: thingsAt(stale), again: thingsAt(connection) };
}

export const rows: readonly Row[] = [
  webhook('read', (webhooks, id, of) => webhooks.get(of, id), 'is not found'),
  webhook('changed', (webhooks, id, of) => webhooks.update(of, id, { active: true }), 'is not found'),
  webhook('given a secret', (webhooks, id, of) => webhooks.rotateSecret(of, id, {}), 'is not found'),
  webhook('deleted', (webhooks, id, of) => webhooks.remove(of, id), 'is not found'),
  webhook('sent an event', (webhooks, id) => webhooks.forDelivery(id)),
  resumed('tested or recovered', (webhooks, id, of) => webhooks.getConfirmed(of, id, isActive)),
  resumed('sent what it had missed', (webhooks, id) => webhooks.forDelivery(id, isActive)),
  key('with its account', userId),
  key('without its account'),

  {
    fault: 'a replaced primary that takes no write',
    subject: 'a webhook and a key that are changed, deleted or revoked',
    written: 'made through the new primary',
    holds: 'unavailable for the moment, although it confirms that the write has found neither',
    async show(stage) {
      const { current, outdated, confirmed } = await stage.scene(openInTurn);
      await stage.fault();
      const webhook = await current.webhooks.create(userId, valid);
      const { id, key } = await current.keys.create({ userId });
      await expectUnavailable(
        within,
        outdated.webhooks.update(userId, webhook.id, { active: false }),
        outdated.webhooks.remove(userId, webhook.id),
        outdated.keys.update(id, { budgets: [] }),
        outdated.keys.revoke(id),
      );
      // of the revocation, it has not confirmed the transaction
      expect(confirmed).to.deep.equal(['findAndModify', 'delete', 'findAndModify', 'findAndModify']);
      expect(await current.webhooks.get(userId, webhook.id)).to.include({ active: true });
      expect(await current.keys.authenticate(key)).to.include({ userId });
    },
  },

  {
    fault: 'a replaced primary',
    subject: 'a sealing key',
    written: 'used through the new primary',
    holds: 'not reported as unused',
    async show(stage) {
      const at = await stage.scene(async ({ connection, stale }) => {
        const { webhooks } = await webhookService(connection, { sealer });
        return { connection, current: webhooks, outdated: webhookServiceOf(stale, { sealer }).webhooks };
      });
      await stage.fault();
      const next = createSealer([`k2:${randomBytes(32).toString('base64')}`]);
      await webhookServiceOf(at.connection, { sealer: next }).service.create(userId, valid);
      await expectUnavailable(within, requireEveryKey(at.outdated, sealer));
      const missing = await requireEveryKey(at.current, sealer).catch((error: Error) => error.message);
      expect(missing).to.include("are sealed with 'k2', which");
    },
  },

  {
    fault: 'a replaced primary',
    subject: 'a document',
    written: 'inserted through the new primary',
    holds: 'a usual read does not find it, a confirmed one does not report it absent; through the new one it is found',
    async show(stage) {
      const { current, outdated, again } = await stage.scene(openThings);
      expect(await findOneConfirmed(current, { _id: 'none' })).to.equal(null);
      expect(await findConfirmed(current, { owner: 'bob' })).to.deep.equal([]);
      const many = await findAllConfirmed(current, ['old', 'none', 'old'], { projection: { owner: 1 } });
      expect([...many]).to.deep.equal([['old', thing('old')]]);

      await stage.fault();
      await current.insertOne(thing('new'), { writeConcern: { w: 'majority' } });
      expect(await outdated.findOne({ _id: 'new' })).to.equal(null);
      expect(await outdated.findOne({ _id: 'old' })).to.deep.equal(thing('old'));
      await expectUnavailable(
        4_000,
        findOneConfirmed(outdated, { _id: 'new' }),
        findConfirmed(outdated, { owner: 'ada' }),
        findAllConfirmed(outdated, ['old', 'new']),
      );

      // the driver had not heard of the new one yet when it read first
      const findOne: typeof current.findOne = outdated.findOne.bind(outdated);
      expect(await findOneConfirmed(Object.assign(again, { findOne }), { _id: 'new' })).to.deep.equal(thing('new'));
      expect([...(await findAllConfirmed(current, ['old', 'new'])).keys()]).to.have.members(['old', 'new']);
    },
  },

  {
    fault: 'a primary without its majority',
    subject: 'a document',
    written: 'which nobody has inserted',
    holds: 'not reported absent',
    async show(stage) {
      const { current } = await stage.scene(openThings);
      await stage.fault();
      await expectUnavailable(4_000, findOneConfirmed(current, { _id: 'none' }));
    },
  },
];
