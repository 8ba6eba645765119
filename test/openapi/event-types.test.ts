import { expect } from 'chai';
import type { components } from '../../src/api.d.ts';
import { spec } from '../support/openapi.ts';
import { misfits } from '../support/spec.ts';

type Schemas = components['schemas'];
type Known = Schemas['KnownEventType'];

/** Has a case for each type that every gateway has: one more, or one less, does not compile. */
function subjectOf(type: Known): string {
  switch (type) {
    case 'usage.threshold':
      return 'usage';
    case 'credits.low':
    case 'credits.depleted':
      return 'credits';
    case 'payment.completed':
    case 'payment.failed':
      return 'payment';
    case 'api_key.created':
    case 'api_key.revoked':
      return 'api_key';
    case 'rate_limit.exceeded':
      return 'rate_limit';
    default: {
      const none: never = type;
      return none;
    }
  }
}

/** Forgets one type. */
function isAboutMoney(type: Known): boolean {
  switch (type) {
    case 'credits.low':
    case 'credits.depleted':
    case 'payment.completed':
    case 'payment.failed':
      return true;
    case 'usage.threshold':
    case 'api_key.created':
    case 'api_key.revoked':
      return false;
    default: {
      // @ts-expect-error 'rate_limit.exceeded' has no case
      const none: never = type;
      return none;
    }
  }
}

const { KnownEventType, EventType } = spec.components.schemas as Record<string, { enum: Known[] }>;

describe('the types of event in openapi.yaml', () => {
  it('can be told apart by a switch that has each of them', () => {
    for (const type of KnownEventType?.enum ?? []) expect(subjectOf(type)).to.equal(type.split('.')[0]);
    expect(KnownEventType?.enum).to.have.length(8);
    expect(isAboutMoney('credits.low')).to.equal(true);
  });

  it('may be others, which the operator has added', () => {
    const type: Schemas['EventType'] = 'order.shipped';
    expect(misfits(EventType ?? {}, type)).to.equal('');
  });

  for (const name of [
    'PublishedEvent',
    'PastEvent',
    'DeliverySummary',
    'EventTypeDescription',
    'EventPublish',
    'WebhookTestRequest',
  ]) {
    it(`are those of ${name}`, () => {
      const { properties } = spec.components.schemas[name] as { properties: { type: { $ref: string } } };
      expect(properties.type.$ref).to.equal('#/components/schemas/EventType');
    });
  }
});
