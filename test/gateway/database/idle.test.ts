import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createCount } from '../../../src/accounting/count.ts';
import { createAccountingModels } from '../../../src/accounting/model.ts';
import { createClosing } from '../../../src/accounting/refused-calls.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { createGateway } from '../../support/gateway.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

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
    const { exceeded } = createAccountingModels(connection, 'gateway_');
    await createClosing({
      exceeded: durableCollection(exceeded),
      publish: never,
      grace: 2_000,
      logger: silentLogger,
    })();

    expect(asked).to.deep.equal(['find gateway_exceeded']);
  });

  it('the check for calls to count sends one query', async () => {
    const count = createCount({
      ...createAccountingModels(connection, 'gateway_'),
      transaction: never,
      publish: never,
      quotas: undefined,
      logger: silentLogger,
      maxWait: 1_000,
      batchSize: 500,
    });

    expect(await count()).to.equal(0);
    await until(() => asked.length > 0);
    expect(asked).to.deep.equal(['find gateway_usage']);
  });

  it('a gateway sends its sweeps, and hardly anything else', async function () {
    // on a busy machine, what starting asks may come later: the least of three measurements counts
    this.retries(2);
    const gateway = await createGateway({ mongo: connection });
    try {
      await gateway.start();
      // what starting asks is over by then
      await sleep(1_000);
      asked.length = 0;
      const startedAt = performance.now();
      // the time that is measured: a busy machine wakes later
      await sleep(5_000);
      const took = performance.now() - startedAt;
      const inTime = (most: number) => Math.floor((most * took) / 5_000);
      const others = asked.filter((command) => command !== 'aggregate gateway_deliveries');
      expect(asked.length - others.length).to.be.below(took / 425 + 2);
      // looks for what other processes have left: calls to count, responses to poll, models, refused calls, recoveries; Agenda's for jobs
      expect(others).to.have.length.below(inTime(18));
      for (const command of others)
        expect(
          others.filter((one) => one === command),
          command,
        ).to.have.length.below(inTime(7));
    } finally {
      await gateway.close();
    }
  });
});
