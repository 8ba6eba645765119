import { expect } from 'chai';
import type { Connection } from 'mongoose';
import type { WebhookService } from '../../../src/webhooks/service.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { type StoredWebhooks, valid, webhookService } from '../support.ts';

const userId = 'usr_1';
const next = 'the secret that comes next';
const third = 'the secret after the next';

const thrown = (promise: Promise<unknown>) =>
  promise.then(
    () => ({ code: 'nothing was thrown' }),
    (error) => error,
  );

describe("rotating a webhook's secret", () => {
  let database: { connection: Connection; drop(): Promise<void> };
  let service: WebhookService;
  let webhooks: StoredWebhooks;
  let id: string;

  before(async () => {
    database = await freshDatabase();
    ({ service, webhooks } = await webhookService(database.connection));
  });
  after(() => database.drop());
  beforeEach(async () => {
    ({ id } = await service.create(userId, valid));
  });
  afterEach(() => service.remove(userId, id));

  const endOverlap = () =>
    webhooks.collection.updateOne({ _id: id as never }, { $set: { 'rotation.endsAt': new Date(Date.now() - 1) } });
  const secrets = async () => {
    const { secret, rotation } = (await service.forDelivery(id)) ?? {};
    return [secret, rotation?.previousSecret];
  };

  it('keeps the previous secret for a day by default', async () => {
    const { rotation, ...webhook } = await service.rotateSecret(userId, id, { secret: next });
    expect(webhook).to.include({ id, userId, active: true });
    expect(rotation?.serviceSignature).to.equal('new');
    expect(rotation?.endsAt.getTime()).to.be.closeTo(Date.now() + 86_400_000, 10_000);
    expect(await secrets()).to.deep.equal([next, valid.secret]);
  });

  it('drops the previous secret at once with an overlap of 0', async () => {
    await service.rotateSecret(userId, id, { secret: next });
    const { rotation } = await service.rotateSecret(userId, id, { secret: third, overlapSeconds: 0 });
    expect(rotation).to.equal(null);
    expect(await secrets()).to.deep.equal([third, undefined]);
    expect(await webhooks.collection.findOne({ _id: id as never })).to.not.have.property('rotation');
  });

  it('is shown until its overlap has ended', async () => {
    const { rotation } = await service.rotateSecret(userId, id, { secret: next, serviceSignature: 'previous' });
    expect((await service.get(userId, id)).rotation).to.deep.equal(rotation);
    await endOverlap();
    expect((await service.get(userId, id)).rotation).to.equal(null);
  });

  it('keeps the last two secrets, and no more', async () => {
    await service.rotateSecret(userId, id, { secret: next });
    await service.rotateSecret(userId, id, { secret: third });
    expect(await secrets()).to.deep.equal([third, next]);
  });

  it('can be repeated: the previous secret stays, and the overlap of the last request applies', async () => {
    await service.rotateSecret(userId, id, { secret: next });
    const again = { secret: next, overlapSeconds: 60, serviceSignature: 'previous' } as const;
    const { rotation } = await service.rotateSecret(userId, id, again);
    expect(await secrets()).to.deep.equal([next, valid.secret]);
    expect(rotation?.serviceSignature).to.equal('previous');
    expect(rotation?.endsAt.getTime()).to.be.closeTo(Date.now() + 60_000, 10_000);
  });

  it('does not bring back a secret whose overlap has ended', async () => {
    await service.rotateSecret(userId, id, { secret: next });
    await endOverlap();
    const { rotation } = await service.rotateSecret(userId, id, { secret: next });
    expect(rotation).to.equal(null);
    expect(await secrets()).to.deep.equal([next, undefined]);
  });

  it('changes nothing when the new secret is the current one', async () => {
    const { rotation } = await service.rotateSecret(userId, id, { secret: valid.secret });
    expect(rotation).to.equal(null);
    expect(await secrets()).to.deep.equal([valid.secret, undefined]);
  });

  it('can return to the previous secret', async () => {
    await service.rotateSecret(userId, id, { secret: next });
    await service.rotateSecret(userId, id, { secret: valid.secret });
    expect(await secrets()).to.deep.equal([valid.secret, next]);
  });

  it('keeps two of the secrets that many requests send at once', async () => {
    const sent = Array.from({ length: 12 }, (_, i) => `one of many secrets ${i}`);
    await Promise.all(sent.map((secret) => service.rotateSecret(userId, id, { secret })));
    const [current, previous] = await secrets();
    expect(sent).to.include.members([current, previous]);
    expect(current).to.not.equal(previous);
  });

  it('seals the previous secret for its own field, so that it opens nowhere else', async () => {
    await service.rotateSecret(userId, id, { secret: next });
    const stored = await webhooks.collection.findOne({ _id: id as never });
    expect(JSON.stringify(stored)).to.not.include(valid.secret).and.not.include(next);
    const swapped = { secret: stored?.rotation.previousSecret };
    await webhooks.collection.updateOne({ _id: id as never }, { $set: swapped });
    expect(await thrown(service.forDelivery(id))).to.include({ code: 'secret_unreadable' });
  });

  it("is refused for another account's webhook, and for one that does not exist", async () => {
    for (const [who, which] of [
      ['usr_2', id],
      [userId, 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc'],
      [userId, 'wh_'],
      [userId, { $ne: null } as never],
    ] as const) {
      const error = await thrown(service.rotateSecret(who, which, { secret: next }));
      expect(error).to.include({ code: 'webhook_not_found' });
    }
    expect(await secrets()).to.deep.equal([valid.secret, undefined]);
  });

  for (const [what, change, code, param] of [
    ['too short a secret', { secret: '1234567' }, 'invalid_value', 'secret'],
    ['a secret that is an operator', { secret: { $ne: null } }, 'invalid_type', 'secret'],
    ['a negative overlap', { secret: next, overlapSeconds: -1 }, 'invalid_value', 'overlap_seconds'],
    ['an overlap over seven days', { secret: next, overlapSeconds: 604_801 }, 'invalid_value', 'overlap_seconds'],
    ['an overlap of half a second', { secret: next, overlapSeconds: 0.5 }, 'invalid_value', 'overlap_seconds'],
    [
      'an overlap that is an operator',
      { secret: next, overlapSeconds: { $gt: 0 } },
      'invalid_value',
      'overlap_seconds',
    ],
    [
      'a choice other than new and previous',
      { secret: next, serviceSignature: '$secret' },
      'invalid_value',
      'service_signature',
    ],
    [
      'the previous secret without an overlap',
      { secret: next, overlapSeconds: 0, serviceSignature: 'previous' },
      'invalid_value',
      'service_signature',
    ],
  ] as const) {
    it(`refuses ${what}, and changes nothing`, async () => {
      expect(await thrown(service.rotateSecret(userId, id, change as never))).to.include({ code, param });
      expect(await secrets()).to.deep.equal([valid.secret, undefined]);
    });
  }

  it('accepts an overlap of seven days', async () => {
    const { rotation } = await service.rotateSecret(userId, id, { secret: next, overlapSeconds: 604_800 });
    expect(rotation?.endsAt.getTime()).to.be.closeTo(Date.now() + 604_800_000, 10_000);
  });
});
