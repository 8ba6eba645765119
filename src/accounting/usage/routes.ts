import type { components } from '../../api.d.ts';
import { GatewayError } from '../../errors.ts';
import type { OperationTable } from '../../http/operation.ts';
import type { ReportUsage, UsageDimension, UsageLine, UsageQuery } from './report.ts';

type Schemas = components['schemas'];

function toLine({ day, model, keyId, ...sums }: UsageLine): Schemas['UsageLine'] {
  return {
    ...(day !== undefined && { day }),
    ...(model !== undefined && { model }),
    ...(keyId !== undefined && { api_key_id: keyId }),
    requests: sums.requests,
    input_tokens: sums.inputTokens,
    cached_input_tokens: sums.cachedInputTokens,
    output_tokens: sums.outputTokens,
    images: sums.images,
  };
}

/**
 * What an account can ask about its usage.
 * @param report absent where usage is not counted
 */
export function usageOperations(report: ReportUsage | undefined): OperationTable {
  return {
    retrieveUsage: {
      async handle({ principal, query }) {
        if (!report) throw new GatewayError('not_found', 'This gateway does not count usage');
        const { from, to, group_by } = query;
        const asked: UsageQuery = {
          ...(from !== undefined && { from: String(from) }),
          ...(to !== undefined && { to: String(to) }),
          ...(group_by !== undefined && { groupBy: String(group_by).split(',') as UsageDimension[] }),
        };
        const { lines, hasMore, ...range } = await report(principal.userId, asked);
        return {
          status: 200,
          body: { ...range, data: lines.map(toLine), has_more: hasMore } satisfies Schemas['UsageReport'],
        };
      },
    },
  };
}
