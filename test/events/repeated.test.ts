import { expect } from 'chai';
import { watchedDatabase } from '../support/commands.ts';
import { payment, startEvents, type TestEvents } from './harness.ts';

describe('Publications that are repeated, many at the same moment', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let events: TestEvents;

  before(async () => {
    database = await watchedDatabase();
    events = await startEvents(database.connection);
  });
  after(async () => {
    await events.close();
    await database.drop();
  });

  const publishAll = (count: number) =>
    Promise.all(
      Array.from({ length: count }, (_, i) =>
        events.publish({ ...payment, userId: `usr_${i % 3}` }, { idempotencyKey: `key-${Math.floor(i / 3)}` }),
      ),
    );

  it('are answered with the events that there are, by a few commands for all of them', async () => {
    const first = await publishAll(60);
    database.forget();
    const again = await publishAll(60);

    expect(again).to.deep.equal(first);
    expect(await events.stored()).to.have.length(60);
    const commands = database.commandsTo('gateway_events').map(({ name }) => name);
    expect(commands).to.include('insert').and.include('find');
    expect(commands.length).to.be.below(10);
  });
});
