import { expect } from 'chai';
import mongoose from 'mongoose';
import { freshUri } from '../../support/mongo.ts';
import { fakeWebhooks, startDeliveryServices } from '../delivery-services.ts';

describe('A worker with nothing to do', () => {
  it('queries the database fewer than seven times a second', async function () {
    // on a busy machine, what starting asks may come later: the least of three measurements counts
    this.retries(2);
    const connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    const gateway = await startDeliveryServices(connection, fakeWebhooks());
    await gateway.start();
    // what starting asks is over by then
    await new Promise((resolve) => setTimeout(resolve, 200));
    let asked = 0;
    connection.getClient().on('commandStarted', () => {
      asked += 1;
    });
    // the time that is measured
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    await gateway.close();
    const during = asked;
    await connection.dropDatabase();
    await connection.close();

    // what closing itself takes is two or three
    expect(during).to.be.below(10 + 3);
  });
});
