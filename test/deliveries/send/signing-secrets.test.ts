import { expect } from 'chai';
import { signatureHeaders, signBody, standardWebhookSignature } from '../../../src/deliveries/signature.ts';
import { secretsInUse } from '../../../src/webhooks/webhook.ts';

const endsAt = new Date('2026-01-01T00:00:00.000Z');
const before = new Date(endsAt.getTime() - 1);
const after = new Date(endsAt.getTime() + 1);
const rotation = (serviceSignature: 'new' | 'previous') => ({ previousSecret: 'old', endsAt, serviceSignature });

describe('the secrets that sign', () => {
  for (const [what, given, now, service, standard] of [
    ['one secret, never rotated', undefined, before, 'fresh', ['fresh']],
    ['one secret, its rotation cleared', null, before, 'fresh', ['fresh']],
    ['both during the overlap, the new one first', rotation('new'), before, 'fresh', ['fresh', 'old']],
    [
      'both during the overlap, the old one for x-service-signature',
      rotation('previous'),
      before,
      'old',
      ['fresh', 'old'],
    ],
    ['the new one from the moment the overlap ends', rotation('new'), endsAt, 'fresh', ['fresh']],
    ['the new one for x-service-signature too from then on', rotation('previous'), endsAt, 'fresh', ['fresh']],
    ['the new one ever after', rotation('previous'), after, 'fresh', ['fresh']],
  ] as const) {
    it(`are ${what}`, () => {
      const receiver = { secret: 'fresh', ...(given !== undefined && { rotation: given }) };
      expect(secretsInUse(receiver, now)).to.deep.equal({ service, standard });
    });
  }

  it('each make a signature, separated by a space', () => {
    const body = Buffer.from('{}');
    const secrets = { service: 'old', standard: ['fresh', 'old'] };
    const headers = signatureHeaders({ eventId: 'evt_1', startedAt: before, secrets }, body);
    const seconds = Math.floor(before.getTime() / 1_000);
    expect(headers['x-service-signature']).to.equal(signBody(body, 'old'));
    expect(headers['webhook-signature']).to.equal(
      ['fresh', 'old'].map((secret) => standardWebhookSignature('evt_1', seconds, body, secret)).join(' '),
    );
  });
});
