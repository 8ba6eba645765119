import { expect } from 'chai';
import { freshDatabase } from '../../../support/mongo.ts';
import { eventually, until } from '../../../support/until.ts';
import { fakeWebhooks } from '../../delivery-services.ts';
import { type Attempting, type Deliveries, openDeliveries, type StoredDeliveries } from '../harness.ts';
import { pendingDelivery } from '../pending-delivery.ts';

type DeliveryRequest = Parameters<Attempting['send']>[0];

const lease = 3_000;
const answer = { status: 500, code: 'http_500' as const, durationMs: 1, response: '' };

describe('A lease', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let processes: Deliveries;
  let deliveries: StoredDeliveries;
  const webhooks = fakeWebhooks();
  const webhookId = webhooks.add('http://127.0.0.1:9/');

  before(async () => {
    database = await freshDatabase();
    processes = openDeliveries(database.connection);
    ({ deliveries } = processes);
  });
  beforeEach(async () => {
    await deliveries.deleteMany({});
    await deliveries.insertMany(['dlv_1', 'dlv_2'].map((id) => ({ ...pendingDelivery(id), webhookId })));
  });
  after(() => database.drop());

  /** Requests that a process is sending, by delivery, and how to answer all of them. */
  function sending() {
    const requests = new Map<string, DeliveryRequest>();
    let end: () => void = () => {};
    const ended = new Promise<typeof answer>((resolve) => {
      end = () => resolve(answer);
    });
    return {
      parts: {
        lease,
        renewInterval: 100,
        target: webhooks.forDelivery,
        retryDelays: [600_000],
        send(request: DeliveryRequest) {
          requests.set(request.attempt?.deliveryId ?? '', request);
          return ended;
        },
      },
      maySend: (id: string) => requests.get(id)?.maySend?.(),
      isSending: () => requests.size === 2,
      answer: () => end(),
    };
  }

  interface Until {
    claimableAt?: Date;
    manual?: { until: Date };
  }
  const kinds = {
    scheduled: {
      make: (parts: Attempting) => processes.scheduled(parts),
      lose: { $set: { lease: null } },
      endOf: ({ claimableAt }: Until) => claimableAt,
    },
    manual: {
      make(parts: Attempting) {
        const attempts = processes.manual(parts);
        return async (deliveryId: string) => {
          const claim = (await attempts.claim('usr_1', deliveryId)) ?? expect.fail('nothing was claimed');
          await attempts.make(claim);
        };
      },
      lose: { $unset: { manual: 1 as const } },
      endOf: ({ manual }: Until) => manual?.until,
    },
  };
  for (const [kind, { make, lose, endOf }] of Object.entries(kinds)) {
    it(`on a ${kind} attempt is certain while it is renewed, and not once another process has taken it`, async () => {
      const { parts, maySend, isSending, answer } = sending();
      const ended = ['dlv_1', 'dlv_2'].map(make(parts));
      await until(isSending);
      expect([maySend('dlv_1'), maySend('dlv_2')]).to.deep.equal([true, true]);

      const stored = (id: string) => deliveries.findById(id).orFail().lean();
      await deliveries.collection.updateOne({ _id: 'dlv_2' as never }, lose);
      const lost = await stored('dlv_2');
      const end = Number(endOf(await stored('dlv_1')));
      // a process that was stopped meanwhile is certain again after its next renewal
      await eventually(
        () => [maySend('dlv_2'), maySend('dlv_1')],
        ([ofLost, ofKept]) => ofLost === false && ofKept === true,
      );
      expect(Number(endOf(await stored('dlv_1')))).to.be.above(end);
      expect(await stored('dlv_2'), 'what others have is not renewed').to.deep.equal(lost);

      answer();
      await Promise.all(ended);
      expect(maySend('dlv_1')).to.equal(false);
    });
  }
});
