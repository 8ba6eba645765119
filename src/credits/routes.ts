import type { components } from '../api.d.ts';
import { GatewayError } from '../errors.ts';
import type { OperationTable } from '../http/operation.ts';
import type { CreditService } from './service.ts';

type Schemas = components['schemas'];

/** @param service absent where credits are off */
export function creditOperations(service: Pick<CreditService, 'balance'> | undefined): OperationTable {
  return {
    retrieveCredits: {
      async handle({ principal }) {
        if (!service) throw new GatewayError('not_found', 'This gateway keeps no credits');
        const { creditsRemaining, lowThreshold } = await service.balance(principal.userId);
        const body = { credits_remaining: creditsRemaining, low_threshold: lowThreshold };
        return { status: 200, body: body satisfies Schemas['Credits'] };
      },
    },
  };
}
