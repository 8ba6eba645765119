import { randomUUID } from 'node:crypto';
import type { components } from '../../api.d.ts';
import { GatewayError } from '../../errors.ts';
import type { OperationTable } from '../../http/operation.ts';
import type { CreditService } from './service.ts';

type Schemas = components['schemas'];

type Credits = Pick<CreditService, 'balance' | 'topUp'>;

function required(service: Credits | undefined): Credits {
  if (!service)
    throw new GatewayError(
      'not_found',
      'This gateway keeps no credits; its operator can turn them on with the option credits',
    );
  return service;
}

/** @param service absent if credits are off */
export function creditOperations(service: Credits | undefined) {
  return {
    retrieveCredits: {
      async handle({ principal }) {
        const { creditsRemaining, lowThreshold } = await required(service).balance(principal.userId);
        const body: Schemas['Credits'] = { credits_remaining: creditsRemaining, low_threshold: lowThreshold };
        return { status: 200, body };
      },
    },
    topUpCredits: {
      async handle({ body: { user_id: userId, credits }, headers }) {
        const reference = headers['idempotency-key'] ?? randomUUID();
        const { creditsRemaining, lowThreshold } = await required(service).topUp({ userId, credits, reference });
        const body: Schemas['CreditsToppedUp'] = {
          user_id: userId,
          credits,
          idempotency_key: reference,
          credits_remaining: creditsRemaining,
          low_threshold: lowThreshold,
        };
        return { status: 201, body };
      },
    },
  } satisfies Partial<OperationTable>;
}
