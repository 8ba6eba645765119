import { expect } from 'chai';
import type { DeliveryDocument } from '../../src/deliveries/model.ts';
import { type DeliveryModel, type ModelDelivery, maxAttempts } from './interleavings-model.ts';
import type { Processes } from './interleavings-processes.ts';
import { eventually } from './over-http.ts';

/** Compares what is stored with what a model says. */
export function createCheck(world: Pick<Processes, 'deliveries' | 'events' | 'made'>, model: DeliveryModel) {
  let before: ReadonlyMap<string, DeliveryDocument> = new Map();

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
  const expected = ({ id: _, webhookId, isStored, holder, ...rest }: ModelDelivery) => ({
    reason: undefined,
    ...rest,
    holder: holder === null ? undefined : world.made[holder]?.claim.token,
  });

  async function compareEvents(): Promise<void> {
    for (const { id, isDone, isFree, leases } of model.events.values()) {
      const event = await eventually(
        () => world.events.findOne({ _id: id }),
        (found) => !isDone || found?.fanOut === 'done',
      );
      expect([event?.fanOut, event?.fanOutLeases]).to.deep.equal([isDone ? 'done' : 'pending', leases]);
      if (event && !isDone) expect(event.fanOutAt <= new Date(), 'nobody has it').to.equal(isFree);
    }
  }

  /** @param unchanged deliveries to which nothing may have happened */
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
    await compareEvents();
  }

  /** Does something, and looks what came of it. @param moves whether it moves the ends of leases, of which the model knows nothing */
  async function checked(doIt: () => Promise<unknown>, moves = false): Promise<void> {
    const told = (delivery: ModelDelivery) => JSON.stringify(delivery);
    const earlier = new Map([...model.deliveries.values()].map((one) => [one.id, told(one)]));
    await doIt();
    const same = [...model.deliveries.values()].filter(
      (one) => before.has(one.id) && earlier.get(one.id) === told(one),
    );
    await compare(new Set(moves ? [] : same.map(({ id }) => id)));
  }

  return {
    checked,
    /** As they were stored when it was last looked. */
    documents: () => before,
  };
}
