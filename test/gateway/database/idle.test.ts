import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createCount } from '../../../src/accounting/count.ts';
import {
  createCounterModel,
  createExceededModel,
  createKeyTotalModel,
  createPeriodModel,
  createUsageModel,
} from '../../../src/accounting/model.ts';
import { createClosing } from '../../../src/accounting/refused-calls.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';

const never = async () => {
  throw new Error('there is nothing to do');
};

describe('With nothing to do', () => {
  let connection: Connection;
  let asked: string[];

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    asked = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      asked.push(`${commandName} ${command[commandName]}`);
    });
  });
  afterEach(() => connection.close());

  it('the check for finished windows of refused calls sends one query', async () => {
    const exceeded = createExceededModel(connection, 'gateway_');
    await createClosing({ exceeded, publish: never, grace: 2_000, logger: silentLogger })();

    expect(asked).to.deep.equal(['find gateway_exceeded']);
  });

  it('the check for calls to count sends one query', async () => {
    const count = createCount({
      usage: createUsageModel(connection, 'gateway_'),
      counters: createCounterModel(connection, 'gateway_'),
      periods: createPeriodModel(connection, 'gateway_'),
      keyTotals: createKeyTotalModel(connection, 'gateway_'),
      transaction: never,
      publish: never,
      quotas: undefined,
      logger: silentLogger,
      maxWait: 1_000,
      batchSize: 500,
    });

    expect(await count()).to.equal(0);
    expect(asked).to.deep.equal(['find gateway_usage']);
  });
});
