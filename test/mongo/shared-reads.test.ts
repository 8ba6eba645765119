import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { SharedReads } from '../../src/mongo/shared-reads.ts';
import { freshUri } from '../support/mongo.ts';

const all = (coll: string) => ({ coll, pipeline: [{ $sort: { _id: 1 } }, { $project: { _id: 1 } }] });
const broken = { coll: 'fruit', pipeline: [{ $match: { $expr: { $divide: [1, 0] } } }] };

describe('Reads that share a round trip', () => {
  let connection: Connection;
  let sent: string[];

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    await connection.collection<{ _id: string }>('fruit').insertMany([{ _id: 'apple' }, { _id: 'pear' }]);
    await connection.collection<{ _id: string }>('trees').insertOne({ _id: 'oak' });
    sent = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      sent.push(`${commandName} ${command[commandName]}`);
    });
  });
  afterEach(async () => {
    await connection.dropDatabase();
    await connection.close();
  });

  it('wait for the next one, and each gets what is its own', async () => {
    const shared = new SharedReads(connection, 60_000);
    const joined = [shared.join(all('trees')), shared.join(all('none'))];
    expect(await shared.read([all('fruit'), all('trees')])).to.deep.equal([
      [{ _id: 'apple' }, { _id: 'pear' }],
      [{ _id: 'oak' }],
    ]);
    expect(await Promise.all(joined)).to.deep.equal([[{ _id: 'oak' }], []]);
    expect(sent).to.deep.equal(['aggregate fruit']);
  });

  it('go together without another when they have waited for long enough', async () => {
    const shared = new SharedReads(connection, 50);
    const joined = [shared.join(all('trees')), shared.join(all('fruit'))];
    expect(await Promise.all(joined)).to.deep.equal([[{ _id: 'oak' }], [{ _id: 'apple' }, { _id: 'pear' }]]);
    expect(sent).to.deep.equal(['aggregate trees']);
  });

  it('hold up no other when they fail', async () => {
    const shared = new SharedReads(connection, 60_000);
    const failed = shared.join(broken).catch((error: Error) => error);
    const joined = shared.join(all('trees'));
    expect(await shared.read([all('fruit')])).to.deep.equal([[{ _id: 'apple' }, { _id: 'pear' }]]);
    expect(await joined).to.deep.equal([{ _id: 'oak' }]);
    expect(await failed).to.be.an('error');
  });

  for (const [when, wait] of [
    ['when they go together', 20],
    ['when that is closed', 60_000],
  ] as const) {
    it(`fail alone where the client is closed, ${when}`, async () => {
      const client = await mongoose.createConnection(freshUri()).asPromise();
      await client.close();
      const shared = new SharedReads(client, wait);
      const unhandled: unknown[] = [];
      const note = (reason: unknown) => unhandled.push(reason);
      process.on('unhandledRejection', note);
      const joined = [shared.join(all('trees')), shared.join(all('fruit'))];
      if (wait > 1_000) shared.close();
      for (const { status } of await Promise.allSettled(joined)) expect(status).to.equal('rejected');
      await new Promise((resolve) => setImmediate(resolve));
      process.off('unhandledRejection', note);
      expect(unhandled).to.deep.equal([]);
    });
  }

  it('do not wait once that is closed', async () => {
    const shared = new SharedReads(connection, 60_000);
    const joined = shared.join(all('trees'));
    shared.close();
    expect(await Promise.all([joined, shared.join(all('trees'))])).to.deep.equal([[{ _id: 'oak' }], [{ _id: 'oak' }]]);
  });
});
