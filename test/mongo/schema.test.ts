import { expect } from 'chai';
import { createModelGateway, type GatewayError } from '../../src/index.ts';
import { command } from '../cli/recorded-terminal.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { eventually } from '../support/until.ts';
import { packageVersion } from '../support/version.ts';

const prefix = 'llm_';

describe('The schema of a database', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  const told: string[] = [];
  const secretKeys = [newSecretKey()];

  before(async () => {
    database = await freshDatabase();
  });
  after(() => database.drop());

  const tell = (line: string) => void told.push(line);
  const logger = { info: tell, warn: tell, error() {} };

  /** Starts a gateway, as a host that builds the indexes in another way, and says whether it is ready. */
  async function start(indexes: 'build' | 'check', beforeHealth: () => Promise<unknown> = async () => {}) {
    const options = { ...loopbackOptions, mongo: database.connection, secretKeys, collectionPrefix: prefix, logger };
    const gateway = await createModelGateway({ ...options, indexes });
    try {
      await beforeHealth();
      // one that a busy machine did not find out in time is unknown
      return await eventually(
        () => gateway.health(),
        ({ checks }) => checks.indexes !== 'unknown',
      );
    } finally {
      await gateway.close();
    }
  }

  async function refusal(starting: Promise<unknown>): Promise<GatewayError> {
    const error = await starting.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).to.include({ code: 'invalid_options' });
    return error as GatewayError;
  }

  const migrate = (...flags: string[]) =>
    command(['migrate', ...flags], { env: { MONGODB_URI: database.uri, COLLECTION_PREFIX: prefix } });
  const record = () => database.connection.collection<{ _id: string; version: number }>(`${prefix}schema`);
  const setRecord = (fields: object) => record().updateOne({ _id: 'schema' }, { $set: fields });
  const events = () => database.connection.collection(`${prefix}events`);

  it('is not created by a gateway that only checks it, whose error names what is missing and the command', async () => {
    const { param, message } = await refusal(start('check'));
    expect(param).to.equal('indexes');
    expect(message)
      .to.include(`${prefix}webhooks.slot (missing)`)
      .and.include('npx express-model-gateway migrate')
      .and.match(/ and \d+ more/);
    expect(await database.connection.listCollections()).to.deep.equal([]);
  });

  it('is planned, created and then left unchanged by migrate', async () => {
    const plan = await migrate('--dry-run');
    expect(plan).to.include({ code: 0, stderr: '' });
    expect(plan.stdout)
      .to.include(`Would build: ${prefix}events.idempotency\n`)
      .and.include(`Would build: ${prefix}payments\n`)
      .and.include(`Schema version: none -> 1 (express-model-gateway ${packageVersion})`);
    expect((await migrate('--dry-run', '--json')).json)
      .to.deep.include({ dry_run: true, from: null, to: 1 })
      .and.to.have.property('missing')
      .that.includes(`${prefix}events.idempotency`);
    expect(await database.connection.listCollections()).to.deep.equal([]);
    expect((await migrate()).stdout).to.equal(plan.stdout.replaceAll('Would build', 'Built'));
    expect((await migrate('--json')).json).to.deep.equal({ dry_run: false, built: [], from: 1, to: 1 });
    expect((await migrate()).stdout).to.include('Indexes: nothing is missing\nSchema version: 1 (');
  });

  it('is created once when two run migrate at the same time, and both succeed', async () => {
    const fresh = await freshDatabase();
    const env = { MONGODB_URI: fresh.uri, COLLECTION_PREFIX: prefix };
    const outcomes = await Promise.all([0, 1].map(() => command(['migrate', '--json'], { env })));
    for (const { code, stderr, json } of outcomes) {
      expect({ code, stderr, to: json.to }).to.deep.equal({ code: 0, stderr: '', to: 1 });
    }
    const expected = (await command(['migrate', '--dry-run', '--json'], { env })).json;
    expect(expected).to.deep.equal({ dry_run: true, missing: [], from: 1, to: 1 });
    const records = await fresh.connection.collection(`${prefix}schema`).find().toArray();
    expect(records).to.have.length(1);
    expect(records[0]).to.include({ version: 1, compatibleFrom: 1, packageVersion });
    await fresh.drop();
  });

  it('is accepted after migrate by a gateway that only checks it', async () => {
    expect((await start('check')).checks).to.include({ database: 'ok', indexes: 'ok' });
  });

  it('lacks an index that was dropped, which a start with indexes: check reports and migrate builds', async () => {
    const lacking = async () => (await migrate('--dry-run', '--json')).json.missing;
    expect(await lacking()).to.deep.equal([]);
    await events().dropIndex('idempotency');
    expect(await lacking()).to.deep.equal([`${prefix}events.idempotency`]);
    expect((await refusal(start('check'))).message).to.include(`this version needs them: ${prefix}events.idempotency`);
    expect((await migrate()).stdout).to.match(/^Built: llm_events\.idempotency\nSchema/);
    expect(await lacking()).to.deep.equal([]);
  });

  it('keeps a gateway from being ready when a unique index is missing, and not when another is', async () => {
    const [unique, other] = ['idempotency', 'userEvents'];
    const withoutOther = await start('build', () => events().dropIndex(other));
    expect(withoutOther).to.deep.include({ ready: true, missingIndexes: [`${prefix}events.userEvents`] });
    expect(withoutOther.checks.indexes).to.equal('degraded');
    const withoutUnique = await start('build', () => events().dropIndex(unique));
    expect(withoutUnique).to.deep.include({ ready: false, missingIndexes: [`${prefix}events.idempotency`] });
    expect(withoutUnique.checks.indexes).to.equal('failed');
    expect(await start('build')).to.have.property('ready', true);
  });

  it('may have an expiry that an operator has changed, which a start logs', async () => {
    const setExpiry = (expireAfterSeconds: number) =>
      database.connection.db?.command({
        collMod: `${prefix}events`,
        index: { name: 'expiryOfOld', expireAfterSeconds },
      });
    await setExpiry(3_600);
    await events().dropIndex('userEvents');
    for (const indexes of ['build', 'check'] as const) {
      told.length = 0;
      const { ready, checks } = await start(indexes);
      expect({ ready, indexes: checks.indexes }).to.deep.equal({ ready: true, indexes: 'ok' });
      expect(told.join()).to.include(`this version sets, and stay so: ${prefix}events.expiryOfOld`);
    }
    await setExpiry(0);
  });

  it('is complete without the indexes of jobs', async () => {
    await database.connection.collection(`${prefix}jobs`).drop();
    const { checks, missingIndexes = [] } = await start('check');
    expect({ indexes: checks.indexes, missingIndexes }).to.deep.equal({ indexes: 'ok', missingIndexes: [] });
    await migrate();
  });

  it('does not replace an index with other options; the error says how to drop it', async () => {
    await events().dropIndex('userEvents');
    await events().createIndex({ userId: 1 }, { name: 'userEvents' });
    const remedy = `run db.getCollection('${prefix}events').dropIndex('userEvents')`;
    expect((await refusal(start('check'))).message).to.include('userEvents (different)');
    expect((await refusal(start('build'))).message).to.include(remedy);
    const refused = await migrate();
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.include(remedy);
    await events().dropIndex('userEvents');
    await migrate();
  });

  it('of a newer version is used and not downgraded, as in a rolling upgrade', async () => {
    await setRecord({ version: 2, packageVersion: '9.0.0' });
    for (const indexes of ['check', 'build'] as const) {
      told.length = 0;
      expect((await start(indexes)).checks.indexes).to.equal('ok');
      expect(told).to.include('a newer version has prepared the database; this one may run beside it');
    }
    expect((await migrate()).stdout).to.include('Schema version: 2 (');
    expect(await record().findOne({ _id: 'schema' })).to.include({ version: 2, packageVersion: '9.0.0' });
  });

  it('of a newer version that this one must not run beside is refused', async () => {
    await setRecord({ version: 3, compatibleFrom: 2, packageVersion: '9.1.0' });
    const { param, message } = await refusal(start('build'));
    expect(param).to.equal('mongo');
    expect(message).to.include('run 9.1.0 or a newer one');
    expect((await migrate()).stderr).to.include('run 9.1.0 or a newer one');
  });

  it('of an older version is upgraded by a gateway that builds, and refused by one that checks', async () => {
    await setRecord({ version: 0, compatibleFrom: 0, packageVersion: '0.0.1' });
    expect((await refusal(start('check'))).message).to.include('prepared for schema version 0');
    await start('build');
    expect(await record().findOne({ _id: 'schema' })).to.include({ version: 1, packageVersion });
    await record().deleteOne({ _id: 'schema' });
    expect((await refusal(start('check'))).message).to.include('npx express-model-gateway migrate');
  });

  it('is created by a command only when there is none; an older one is refused and left unchanged', async () => {
    const env = { MONGODB_URI: database.uri, COLLECTION_PREFIX: prefix };
    const list = () => command(['keys', 'list', '--database', '--user', 'usr_1'], { env });
    expect(await list()).to.include({ code: 0, stderr: '' });
    expect(await record().findOne({ _id: 'schema' })).to.include({ version: 1 });
    await setRecord({ version: 0, compatibleFrom: 0, packageVersion: '0.0.1' });
    await events().dropIndex('userEvents');
    const refused = await list();
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.include('run `npx express-model-gateway migrate`');
    expect(await record().findOne({ _id: 'schema' })).to.include({ version: 0, packageVersion: '0.0.1' });
    expect((await events().indexes()).map(({ name }) => name)).to.not.include('userEvents');
  });
});
