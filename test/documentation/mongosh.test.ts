import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { codeBlocks } from './documents.ts';
import { blockWith } from './programs.ts';

const day = 86_400_000;

/** What runs a command of `mongosh`: `db`, and what `sh` was asked to shard. */
function mongosh({ db }: Connection) {
  const sharded: string[] = [];
  const database = new Proxy({}, { get: (_target, name) => db?.collection(String(name)) });
  const sh = { shardCollection: (name: string) => sharded.push(name) };
  return {
    sharded,
    /** Runs a command; resolves to what it returns, a cursor as the list of its documents. */
    async run(command: string): Promise<unknown> {
      const returned = await new Function('db', 'sh', `return (${command.trim()})`)(database, sh);
      return typeof returned?.toArray === 'function' ? returned.toArray() : returned;
    },
  };
}

describe('The mongosh commands of the documentation', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let shell: ReturnType<typeof mongosh>;

  beforeEach(async () => {
    database = await freshDatabase();
    shell = mongosh(database.connection);
  });
  afterEach(() => database.drop());

  it('are those that these tests run', () => {
    const blocks = codeBlocks.filter(({ language }) => language === 'mongosh');
    expect(blocks.map(({ document }) => document).sort()).to.deep.equal([
      'docs/on-call.md',
      'docs/on-call.md',
      'docs/scale.md',
    ]);
  });

  it('let deliveries expire that are older than a shorter retention', async () => {
    const deliveries = database.connection.collection<{ _id: string; expiresAt: Date }>('gateway_deliveries');
    const now = Date.now();
    const expiries = { old: new Date(now + 22 * day), young: new Date(now + 24 * day) };
    await deliveries.insertMany(Object.entries(expiries).map(([_id, expiresAt]) => ({ _id, expiresAt })));
    await shell.run(blockWith('docs/on-call.md', 'mongosh', 'updateMany').code);
    const [old, young] = await deliveries.find().sort({ _id: 1 }).toArray();
    expect(old?.expiresAt.getTime()).to.be.closeTo(now, day);
    expect(young?.expiresAt).to.deep.equal(expiries.young);
  });

  it('list the events that have one idempotency key', async () => {
    const events = database.connection.collection<{ _id: string }>('gateway_events');
    const event = { userId: 'usr_1', idempotencyKey: 'k' };
    await events.insertMany([
      { _id: 'evt_1', ...event },
      { _id: 'evt_2', ...event },
      { _id: 'evt_3', ...event, userId: 'usr_2' },
    ]);
    const found = await shell.run(blockWith('docs/on-call.md', 'mongosh', 'aggregate').code);
    expect(found).to.deep.equal([{ _id: { user: 'usr_1', key: 'k' }, ids: ['evt_1', 'evt_2'], count: 2 }]);
  });

  it('create the indexes of the shard keys, and shard collections of the gateway', async () => {
    const [use, ...commands] = blockWith('docs/scale.md', 'mongosh', 'sh.').code.trim().split('\n');
    expect(use).to.equal('use gateway');
    for (const command of commands) await shell.run(command);
    const gateway = await createGateway({ mongo: database.connection });
    const collections = await database.connection.listCollections();
    await gateway.close();
    const names = collections.map(({ name }) => `gateway.${name}`);
    expect(names).to.include.members(shell.sharded);
    expect(shell.sharded).to.not.be.empty;
  });
});
