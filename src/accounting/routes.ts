import { randomUUID } from 'node:crypto';
import type { components, operations } from '../api.d.ts';
import { GatewayError, refuse } from '../errors.ts';
import { requireNoBudgets, toBudgetBody } from '../http/budget-body.ts';
import type { OperationTable, ReplyOf } from '../http/operation.ts';
import type { BudgetUsage } from '../options/budgets.ts';
import type { Accounting } from './accounting.ts';
import type { PaymentService } from './payments.ts';
import { isUsageDimension, type UsageLine } from './report.ts';

type Schemas = components['schemas'];

/** @throws GatewayError `not_found` with this message if the part is switched off */
function switchedOn<T>(part: T | undefined, message: string): T {
  if (part) return part;
  throw new GatewayError('not_found', message);
}

function toLine({ day, model, keyId, ...sums }: UsageLine): Schemas['UsageLine'] {
  return {
    ...(day !== undefined && { day }),
    ...(model !== undefined && { model }),
    ...(keyId !== undefined && { api_key_id: keyId }),
    requests: sums.requests,
    input_tokens: sums.inputTokens,
    cached_input_tokens: sums.cachedInputTokens,
    ...(sums.cacheWriteTokens && { cache_write_tokens: sums.cacheWriteTokens }),
    ...(sums.cacheWriteHourTokens && { cache_write_hour_tokens: sums.cacheWriteHourTokens }),
    output_tokens: sums.outputTokens,
    reasoning_tokens: sums.reasoningTokens,
    ...(sums.inputAudioTokens && { input_audio_tokens: sums.inputAudioTokens }),
    ...(sums.cachedInputAudioTokens && { cached_input_audio_tokens: sums.cachedInputAudioTokens }),
    ...(sums.outputAudioTokens && { output_audio_tokens: sums.outputAudioTokens }),
    images: sums.images,
    ...(sums.webSearchCalls && { web_search_calls: sums.webSearchCalls }),
    ...(sums.fileSearchCalls && { file_search_calls: sums.fileSearchCalls }),
    ...(sums.codeInterpreterCalls && { code_interpreter_calls: sums.codeInterpreterCalls }),
    seconds: sums.seconds,
    characters: sums.characters,
    ...(sums.units && { units: sums.units }),
    uploaded_bytes: sums.uploadedBytes ?? 0,
    downloaded_bytes: sums.downloadedBytes ?? 0,
    ...(sums.credits !== undefined && { credits: sums.credits }),
  };
}

function usageOperations(report: Accounting['report']) {
  const off = 'This gateway does not count usage; its operator can turn this on with the option usage';
  return {
    retrieveUsage: {
      async handle({ principal, query }) {
        const { group_by, ...days } = query;
        const groupBy = group_by?.split(',').filter(isUsageDimension);
        const readReport = switchedOn(report, off);
        const { lines, hasMore, ...range } = await readReport(principal.userId, {
          ...days,
          ...(groupBy && { groupBy }),
        });
        const body: Schemas['UsageReport'] = { ...range, data: lines.map(toLine), has_more: hasMore };
        return { status: 200, body };
      },
    },
  } satisfies Partial<OperationTable>;
}

function toBudgetsReply(budgets: readonly BudgetUsage[]): ReplyOf<operations['listBudgets']> {
  return { status: 200, body: { data: budgets.map(toBudgetBody) } };
}

function budgetOperations(budgets: Accounting['budgets']) {
  const off =
    'This gateway does not count usage, so it has no budgets; its operator can turn usage on with the option usage';
  const get = async (userId: string) => toBudgetsReply(await switchedOn(budgets, off).get(userId));
  return {
    listBudgets: { handle: ({ principal }) => get(principal.userId) },
    listUserBudgets: { handle: ({ params: { user_id } }) => get(user_id) },
    updateUserBudgets: {
      async handle({ principal, params: { user_id }, body }) {
        requireNoBudgets(principal);
        return toBudgetsReply(await switchedOn(budgets, off).set(user_id, body.budgets));
      },
    },
  } satisfies Partial<OperationTable>;
}

function creditOperations(credits: Accounting['credits']) {
  const off = 'This gateway keeps no credits; its operator can turn them on with the option credits';
  return {
    retrieveCredits: {
      async handle({ principal }) {
        const { creditsRemaining, lowThreshold } = await switchedOn(credits, off).balance(principal.userId);
        const body: Schemas['Credits'] = { credits_remaining: creditsRemaining, low_threshold: lowThreshold };
        return { status: 200, body };
      },
    },
    topUpCredits: {
      async handle({ body: { user_id: userId, credits: added }, headers }) {
        const reference = headers['idempotency-key'] ?? randomUUID();
        const topUp = { userId, credits: added, reference };
        const { creditsRemaining, lowThreshold } = await switchedOn(credits, off).topUp(topUp);
        const body: Schemas['CreditsToppedUp'] = {
          user_id: userId,
          credits: added,
          idempotency_key: reference,
          credits_remaining: creditsRemaining,
          low_threshold: lowThreshold,
        };
        return { status: 201, body };
      },
    },
  } satisfies Partial<OperationTable>;
}

type Status = Schemas['PaymentReport']['status'];
type Completed = Pick<Schemas['CompletedPaymentReport'], 'credits_added'>;
type Failed = Pick<Schemas['FailedPaymentReport'], 'reason'>;

/** @throws GatewayError `missing_required_parameter` unless the field, which this status needs, has a value */
function required<T>(status: Status, name: string, value: T | undefined): T {
  if (value !== undefined) return value;
  return refuse('missing_required_parameter', name, `is required with the status ${status}`);
}

/** @throws GatewayError `unknown_parameter` if a field that this status does not have has a value */
function requireAbsent(status: Status, name: string, value: unknown): void {
  if (value === undefined) return;
  refuse('unknown_parameter', name, `does not belong to the status ${status}`);
}

/** The operation by which a billing service reports payments. */
function paymentOperations(service: PaymentService) {
  return {
    reportPayment: {
      async handle({ body, headers }) {
        const { status, payment_id: paymentId, user_id: userId, amount, currency } = body;
        const { credits_added, reason } = body as Partial<Completed & Failed>;
        const payment = { paymentId, userId, amount, currency };
        const key = headers['idempotency-key'];
        const report = async () => {
          if (status === 'completed') {
            requireAbsent(status, 'reason', reason);
            return service.completed({ ...payment, creditsAdded: required(status, 'credits_added', credits_added) });
          }
          requireAbsent(status, 'credits_added', credits_added);
          const failed = { ...payment, reason: required(status, 'reason', reason) };
          return service.failed(failed, key === undefined ? {} : { idempotencyKey: key });
        };
        const { idempotencyKey, data, ...event } = await report();
        const answer: Schemas['PublishedEvent'] = {
          ...event,
          user_id: userId,
          // publishing types it as unknown, for a host's own types; these are objects
          data: data as Schemas['EventData'],
          idempotency_key: idempotencyKey,
        };
        return { status: 201, body: answer };
      },
    },
  } satisfies Partial<OperationTable>;
}

/** The operations on what accounts use and pay: of usage, budgets and credits also where they are switched off, to say so. */
export function accountingOperations({ report, budgets, credits, payments }: Accounting) {
  return {
    ...usageOperations(report),
    ...budgetOperations(budgets),
    ...creditOperations(credits),
    ...paymentOperations(payments),
  } satisfies Partial<OperationTable>;
}
