import type { components } from '../../api.d.ts';
import { GatewayError } from '../../errors.ts';
import type { OperationTable } from '../../http/operation.ts';
import { isUsageDimension, type ReportUsage, type UsageLine } from './report.ts';

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
    reasoning_tokens: sums.reasoningTokens,
    images: sums.images,
    seconds: sums.seconds,
    characters: sums.characters,
    ...(sums.credits !== undefined && { credits: sums.credits }),
  };
}

/**
 * The operation that reads an account's usage.
 * @param report absent if usage is not counted
 */
export function usageOperations(report: ReportUsage | undefined) {
  return {
    retrieveUsage: {
      async handle({ principal, query }) {
        if (!report)
          throw new GatewayError(
            'not_found',
            'This gateway does not count usage; its operator can turn this on with the option usage',
          );
        const { group_by, ...days } = query;
        const groupBy = group_by?.split(',').filter(isUsageDimension);
        const { lines, hasMore, ...range } = await report(principal.userId, { ...days, ...(groupBy && { groupBy }) });
        const body: Schemas['UsageReport'] = { ...range, data: lines.map(toLine), has_more: hasMore };
        return { status: 200, body };
      },
    },
  } satisfies Partial<OperationTable>;
}
