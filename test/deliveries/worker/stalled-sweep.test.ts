import { once } from 'node:events';
import { expect } from 'chai';
import type { CommandStartedEvent } from 'mongodb';
import mongoose from 'mongoose';
import { dropLater, freshUri } from '../../support/mongo.ts';
import { fakeWebhooks, startDeliveryServices } from '../delivery-services.ts';

const appName = 'stalled-sweep';

describe('A sweep that the database does not answer', () => {
  it('delays the next one by about 10 s at most, even on a connection without a time-out', async () => {
    const connection = await mongoose.createConnection(freshUri(), { appName, monitorCommands: true }).asPromise();
    const client = connection.getClient();
    const looks: { requestId: number; at: number }[] = [];
    const answered = new Set<number>();
    const gateway = await startDeliveryServices(connection, fakeWebhooks());
    const data = { appName, failCommands: ['aggregate'], blockConnection: true, blockTimeMS: 15_000 };
    await client.db('admin').command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data });
    client.on('commandStarted', ({ commandName, requestId }: CommandStartedEvent) => {
      if (commandName === 'aggregate') looks.push({ requestId, at: performance.now() });
    });
    client.on('commandSucceeded', ({ requestId }) => answered.add(requestId));

    await gateway.start();
    while (looks.length < 2 || !answered.has(Number(looks[1]?.requestId))) await once(client, 'commandSucceeded');
    const [first, second] = looks;
    if (!first || !second) throw new Error('there are not two');
    expect(answered.has(first.requestId)).to.equal(false);
    // 10 s, and what a busy machine adds; the answer comes after 15 s
    expect(second.at - first.at).to.be.below(14_000);

    await gateway.close();
    dropLater(connection);
  });
});
