import { expect } from 'chai';
import type { DeliveryDocument } from '../../../src/deliveries/model.ts';
import type { EventDocument } from '../../../src/events/model.ts';
import { eventually } from '../../support/until.ts';
import { type DeliveryModel, type ModelDelivery, maxAttempts, type Scheduled } from './model.ts';
import type { Processes } from './processes.ts';

/** Compares what is stored with what a model says. */
export function createCheck(
  world: Pick<Processes, 'deliveries' | 'events' | 'made' | 'scheduled' | 'looks'>,
  model: DeliveryModel,
) {
  let before: ReadonlyMap<string, DeliveryDocument> = new Map();
  let eventsBefore: ReadonlyMap<string, Omit<EventDocument, 'body'>> = new Map();

  /** Of a delivery, what the model tells. */
  const shown = ({ state, reason, attempt, starts, lease, claimableAt, attempts }: DeliveryDocument) => ({
    state,
    reason,
    attempt,
    starts,
    holder: lease?.token,
    isClaimable: claimableAt !== undefined && claimableAt <= new Date(),
    attempts: attempts.map(({ number, code }) => ({ number, ok: code === undefined })),
  });
  const expected = ({ id: _, webhookId, isStored, holder, leaseChanges: __, ...rest }: ModelDelivery) => ({
    reason: undefined,
    ...rest,
    holder: holder === null ? undefined : world.made[holder]?.claim.token,
  });

  async function compareEvents(unchanged: ReadonlySet<string>): Promise<void> {
    const isDone = (id: string) => model.events.get(id)?.isDone;
    const found = await eventually(
      () => world.events.find({}, { projection: { body: 0 } }).toArray(),
      (events) => events.every(({ _id, fanOut }) => fanOut === 'done' || !isDone(_id)),
    );
    const documents = new Map(found.map((document) => [document._id, document]));
    for (const { id, isDone, isFree, leases } of model.events.values()) {
      const event = documents.get(id);
      expect([event?.fanOut, event?.fanOutLeases]).to.deep.equal([isDone ? 'done' : 'pending', leases]);
      if (event && !isDone) expect(event.fanOutAt <= new Date(), 'nobody has it').to.equal(isFree);
      if (unchanged.has(id)) expect(event).to.deep.equal(eventsBefore.get(id));
    }
    eventsBefore = documents;
  }

  /** The process, and no other, that has stored that an attempt is to be made schedules it, or tells its worker of it. */
  async function compareTold(): Promise<void> {
    const named = ({ id, attempt }: Scheduled) => `${id} ${attempt}`;
    const told = ({ scheduled, looks }: Pick<Processes, 'scheduled' | 'looks'>) => ({
      scheduled: scheduled.map(named).sort(),
      looks: [...looks].sort(),
    });
    const expected = told(model);
    const seen = await eventually(
      () => told(world),
      ({ scheduled, looks }) => scheduled.length + looks.length >= expected.scheduled.length + expected.looks.length,
    );
    expect(seen, 'attempts that are scheduled, and webhooks to look at').to.deep.equal(expected);
  }

  /** @param unchanged deliveries and events to which nothing may have happened */
  async function compare(unchanged: ReadonlySet<string>): Promise<void> {
    const stored = [...model.deliveries.values()].filter(({ isStored }) => isStored);
    // a publisher does not wait for what is stored for others
    const found = await eventually(
      () => world.deliveries.find().toArray(),
      ({ length }) => length >= stored.length,
    );
    const documents = new Map(found.map((document) => [document._id, document]));
    expect([...documents.keys()]).to.have.members(stored.map(({ id }) => id));
    for (const delivery of stored) {
      const document = documents.get(delivery.id) as DeliveryDocument;
      const earlier = before.get(delivery.id);
      expect(shown(document)).to.deep.equal(expected(delivery));
      expect(document.attempts.length).to.be.at.most(maxAttempts);
      if (unchanged.has(delivery.id)) expect(document).to.deep.equal(earlier);
      if (earlier?.state === 'delivered') expect(document.endedAt, 'it ends once').to.deep.equal(earlier.endedAt);
    }
    before = documents;
    await compareEvents(unchanged);
    await compareTold();
  }

  /** Does something, and looks what came of it. */
  async function checked(doIt: () => Promise<unknown>): Promise<void> {
    const all = () => [...model.deliveries.values(), ...model.events.values()];
    const earlier = new Map(all().map((one) => [one.id, JSON.stringify(one)]));
    await doIt();
    const same = all().filter((one) => earlier.get(one.id) === JSON.stringify(one));
    await compare(new Set(same.map(({ id }) => id)));
  }

  return {
    checked,
    /** As they were stored when it was last looked. */
    documents: () => before,
  };
}
