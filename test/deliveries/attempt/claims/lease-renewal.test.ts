import { expect } from 'chai';
import { Attempts } from '../../../../src/deliveries/attempt.ts';
import { type AttemptResult, Claims } from '../../../../src/deliveries/claims.ts';
import { createManualAttempts } from '../../../../src/deliveries/manual-attempt.ts';
import { createDeliveryModel, type DeliveryDocument, type DeliveryModel } from '../../../../src/deliveries/model.ts';
import type { DeliveryRequest } from '../../../../src/deliveries/send.ts';
import { freshDatabase } from '../../../support/mongo.ts';
import { eventually, until } from '../../../support/until.ts';
import { claimTerms, noJobs } from '../../claims-of.ts';
import { fakeWebhooks, noRateLimits } from '../../delivery-services.ts';
import { pendingDelivery } from '../pending-delivery.ts';

const lease = 3_000;
const answer = { status: 500, code: 'http_500' as const, durationMs: 1, response: '' };

describe('A lease', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let deliveries: DeliveryModel;
  const webhooks = fakeWebhooks();
  const webhookId = webhooks.add('http://127.0.0.1:9/');

  before(async () => {
    database = await freshDatabase();
    deliveries = createDeliveryModel(database.connection, 'gateway_');
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
    const ended = new Promise<AttemptResult>((resolve) => {
      end = () => resolve(answer);
    });
    return {
      parts: {
        ...claimTerms(deliveries, 'worker', lease),
        renewInterval: 100,
        target: webhooks.forDelivery,
        body: async () => Buffer.from('{}'),
        sendRates: noRateLimits,
        jobs: noJobs,
        retryDelays: [600_000],
        userAgent: 'test',
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

  type Parts = ReturnType<typeof sending>['parts'];
  const kinds = {
    scheduled: {
      make(parts: Parts) {
        const attempts = new Attempts({ ...parts, claims: new Claims(parts) });
        return (deliveryId: string) => {
          const ref = { deliveryId, webhookId: 'wh_1', userId: 'usr_1', attempt: 1 };
          return attempts.make(ref, attempts.prepare(ref).prepared);
        };
      },
      lose: { $set: { lease: null } },
      endOf: ({ claimableAt }: DeliveryDocument) => claimableAt,
    },
    manual: {
      make(parts: Parts) {
        const attempts = createManualAttempts(parts);
        return async (deliveryId: string) => {
          const claim = (await attempts.claim('usr_1', deliveryId)) ?? expect.fail('nothing was claimed');
          await attempts.make(claim);
        };
      },
      lose: { $unset: { manual: 1 as const } },
      endOf: ({ manual }: DeliveryDocument) => manual?.until,
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
