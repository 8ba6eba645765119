import { createHook } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createAccountingModels, type UsageModel } from '../../../src/accounting/model.ts';
import { UsageService, type UsageServiceDeps } from '../../../src/accounting/usage-writer.ts';
import type { UsageRecord } from '../../../src/index.ts';
import type { OpenUsage } from '../../../src/options/options.ts';
import { HeldClock } from '../../support/clock.ts';
import { newId } from '../../support/ids.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

/** How long a write is waited for. Milliseconds. */
const longestWrite = 9_000;

describe('usage records', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let usage: UsageModel;
  let service: UsageService;
  let errors: unknown[];

  const make = (deps: Partial<UsageServiceDeps> = {}) =>
    new UsageService({
      usage,
      logger: { ...silentLogger, error: (_message, fields) => errors.push(fields) },
      longestCall: 1_000,
      flushInterval: 5,
      ...deps,
    });

  beforeEach(async () => {
    errors = [];
    database = await freshDatabase();
    connection = database.connection;
    usage = createAccountingModels(connection, 'gateway_').usage;
    await usage.createIndexes();
    service = make();
  });

  afterEach(async () => {
    await service.close();
    await database.drop();
  });

  const open = (startedAt = new Date()): OpenUsage => ({
    id: newId('use', Date.now()),
    requestId: 'req_1',
    userId: 'usr_1',
    keyId: null,
    endpoint: '/chat/completions',
    model: 'm',
    upstream: 'one',
    inputTokens: 12,
    seconds: 0,
    characters: 0,
    startedAt,
  });

  const closed = (opened: OpenUsage): UsageRecord => ({
    ...opened,
    cachedInputTokens: 4,
    outputTokens: 5,
    reasoningTokens: 3,
    images: 0,
    estimated: false,
    ending: 'complete',
    durationMs: 10,
    firstByteMs: 2,
  });

  const written = async (count: number) => {
    await until(async () => (await usage.countDocuments()) === count);
    return await usage.find().lean();
  };

  it('are open while a call runs and final when it has ended', async () => {
    const call = open();
    service.opened(call);
    expect((await written(1))[0]).to.include({ _id: call.id, ending: null, estimated: true, inputTokens: 12 });
    service.closed(closed(call));
    await service.close();
    const { id, ...fields } = closed(call);
    expect(await usage.find().lean()).to.deep.equal([{ _id: id, ...fields, counted: false }]);
  });

  it('are written once for a call that ends at once', async () => {
    const calls = Array.from({ length: 50 }, () => open());
    for (const call of calls) {
      service.opened(call);
      service.closed(closed(call));
    }
    await service.close();
    expect(await usage.countDocuments({ ending: 'complete' })).to.equal(50);
  });

  it('are removed for a call that was not answered', async () => {
    const early = open();
    service.opened(early);
    service.dropped(early.id);
    const late = open();
    service.opened(late);
    await written(1);
    service.dropped(late.id);
    await service.close();
    expect(await usage.countDocuments()).to.equal(0);
  });

  it('are closed as estimated once they are older than any call may run, and not before', async () => {
    const old = open(new Date(Date.now() - 120_000));
    const young = open(new Date(Date.now() - 30_000));
    service.opened(old);
    service.opened(young);
    await written(2);
    expect(await service.sweep()).to.equal(1);
    expect(await usage.findById(old.id).lean()).to.include({ ending: 'orphaned', estimated: true, inputTokens: 12 });
    expect(await usage.findById(young.id).lean()).to.include({ ending: null });
  });

  it('do not change once they have ended', async () => {
    const call = open(new Date(Date.now() - 120_000));
    service.opened(call);
    await written(1);
    await service.sweep();
    service.closed(closed(call));
    const ended = open();
    service.closed(closed(ended));
    await written(2);
    service.dropped(ended.id);
    service.dropped(call.id);
    await service.close();
    expect(await usage.findById(call.id).lean()).to.include({ ending: 'orphaned', outputTokens: 0 });
    expect(await usage.findById(ended.id).lean()).to.include({ ending: 'complete', outputTokens: 5 });
  });

  const namespace = () => `${connection.name}.${usage.collection.collectionName}`;
  const setFailPoint = (configureFailPoint: string, mode: object | 'alwaysOn' | 'off', data: object) =>
    connection.getClient().db('admin').command({ configureFailPoint, mode, data });

  /** What the database answers to the next writes of records. */
  async function failWrites(times: number, failure: object): Promise<void> {
    await setFailPoint(
      'failCommand',
      { times },
      { failCommands: ['insert', 'update'], namespace: namespace(), ...failure },
    );
  }

  it('are written again until the database accepts them', async () => {
    const call = open();
    await failWrites(2, { errorCode: 8_000 });
    service.opened(call);
    service.closed(closed(call));
    expect(await written(1)).to.have.lengthOf(1);
    // told once, however often it is tried again
    expect(errors).to.have.lengthOf(1);
  });

  it('wait for one write together, however long it takes', async () => {
    const busy = make({ flushInterval: 1 });
    await failWrites(1, { blockConnection: true, blockTimeMS: 400 });
    const end = performance.now() + 300;
    let calls = 0;
    let promises = 0;
    const hook = createHook({
      init(_id, type) {
        if (type === 'PROMISE') promises += 1;
      },
    }).enable();
    while (performance.now() < end) {
      busy.opened(open());
      calls += 1;
      // as often as calls come
      await sleep(1);
    }
    await busy.close();
    hook.disable();
    expect(await usage.countDocuments()).to.equal(calls);
    // where each interval waits for itself, all of them look again after each write
    expect(promises / calls).to.be.below(20);
  });

  it('are removed for an unanswered call that is told of twice', async () => {
    const call = open();
    service.opened(call);
    await written(1);
    service.dropped(call.id);
    service.dropped(call.id);
    await service.close();
    expect(await usage.countDocuments()).to.equal(0);
  });

  it('are removed for an unanswered call even if the database did not confirm their write', async () => {
    const call = open();
    await failWrites(1, { writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' } });
    service.opened(call);
    await until(() => errors.length > 0);
    expect(await usage.countDocuments()).to.equal(1);
    service.dropped(call.id);
    await service.close();
    expect(await usage.countDocuments()).to.equal(0);
  });

  /** A connection, what is written on it, the command and how many records, and which of these commands have ended. */
  async function monitor() {
    const monitored = await mongoose.createConnection(database.uri, { monitorCommands: true }).asPromise();
    const commands: string[] = [];
    const ended: string[] = [];
    monitored.getClient().on('commandSucceeded', ({ commandName }) => ended.push(commandName));
    monitored.getClient().on('commandStarted', ({ commandName, command }) => {
      if (commandName === 'insert' || commandName === 'update')
        commands.push(`${commandName} ${command.documents?.length ?? 1}`);
    });
    return { monitored, commands, ended };
  }

  for (const [name, isRetried] of [
    ['although their write was given up, and arrives behind their removal', false],
    ['although the write that was given up arrives behind a second one and their removal', true],
  ] as const) {
    it(`are removed for an unanswered call ${name}`, async () => {
      const { monitored, commands, ended } = await monitor();
      const journal = make({ usage: createAccountingModels(monitored, 'gateway_').usage });
      const hang = (mode: 'alwaysOn' | 'off') => setFailPoint('hangDuringBatchInsert', mode, { nss: namespace() });
      const call = open();
      const clock = new HeldClock(longestWrite);
      await hang('alwaysOn');
      try {
        journal.opened(call);
        await until(() => commands.includes('insert 1'));
        if (!isRetried) journal.dropped(call.id);
        clock.turn(longestWrite);
        if (isRetried) {
          await until(() => ended.includes('update'));
          journal.dropped(call.id);
        }
        await until(() => ended.includes('delete'));
        expect(ended).not.to.include('insert');
      } finally {
        clock.release();
        await hang('off');
      }
      await until(() => ended.includes('insert'));
      await until(async () => (await usage.countDocuments()) === 0);
      await journal.close();
      await monitored.close();
    });
  }

  it('take one insert for calls that end at once, and an update for those that run on', async () => {
    const { monitored, commands } = await monitor();
    const journal = make({ usage: createAccountingModels(monitored, 'gateway_').usage });
    const [short, long] = [open(), open()];
    journal.opened(short);
    journal.opened(long);
    journal.closed(closed(short));
    await written(2);
    journal.closed(closed(long));
    await journal.close();
    await monitored.close();
    expect(commands).to.deep.equal(['insert 2', 'update 1']);
    expect(await usage.countDocuments({ ending: 'complete', counted: false })).to.equal(2);
  });

  it('are acknowledged by a majority, whatever write concern the host sets', async () => {
    const weak = await mongoose.createConnection(database.uri, { w: 1, monitorCommands: true }).asPromise();
    const concerns: unknown[] = [];
    weak.getClient().on('commandStarted', ({ commandName, command }) => {
      if (commandName === 'insert') concerns.push(command.writeConcern);
    });
    const hosted = make({ usage: createAccountingModels(weak, 'gateway_').usage });
    hosted.opened(open());
    await hosted.close();
    await weak.close();
    expect(concerns).to.deep.equal([{ w: 'majority', j: true }]);
  });

  it('are written in batches, so that a kill loses only the latest', async () => {
    // what has been gathered and not yet written when a process dies is lost: here the last five of ten calls
    const { monitored, commands } = await monitor();
    const dying = make({ usage: createAccountingModels(monitored, 'gateway_').usage });
    const early = Array.from({ length: 5 }, () => open());
    for (const call of early) dying.opened(call);
    expect(await written(5)).to.have.lengthOf(5);
    expect(commands).to.deep.equal(['insert 5']);
    for (let i = 0; i < 5; i += 1) dying.opened(open());
    await dying.close();
    await monitored.close();
    expect(commands).to.deep.equal(['insert 5', 'insert 5']);
    expect(await usage.countDocuments()).to.equal(10);
  });
});
