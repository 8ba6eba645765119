import type { components } from '../api.d.ts';
import type { OperationTable } from '../http/operation.ts';
import type { ReportUsage, UsageDimension, UsageLine, UsageQuery } from './report.ts';

type Schemas = components['schemas'];

function toLine({ day, model, keyId, requests, inputTokens, outputTokens, images }: UsageLine): Schemas['UsageLine'] {
  return {
    ...(day !== undefined && { day }),
    ...(model !== undefined && { model }),
    ...(keyId !== undefined && { api_key_id: keyId }),
    requests,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    images,
  };
}

/** What an account can ask about its usage. */
export function usageOperations(report: ReportUsage): OperationTable {
  return {
    retrieveUsage: {
      async handle({ principal, query }) {
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
