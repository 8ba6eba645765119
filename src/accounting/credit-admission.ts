import { type ErrorCode, GatewayError } from '../errors.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { asUnavailable, databaseUnavailable } from '../mongo/unavailable.ts';
import { accountRows } from '../options/accounts.ts';
import type { CreditOptions, ModelCall, RequestedOutput } from '../options/options.ts';
import { type Admission, oneAnswer } from '../proxy/admission.ts';
import type { Allowances } from './allowances.ts';
import type { Ledger } from './ledger.ts';
import { costOf, longWorks, toCredits } from './price.ts';

/**
 * Reserves what a call is likely to cost. Waits for the database only if this process does not know what the account has
 * left: if the account is new here, was idle for longer than its lease lasts, or had nothing left.
 * @throws GatewayError `insufficient_credits`; `rate_limit_exceeded` if the account has credits that this process cannot
 *   spend yet; `database_unavailable` if the database does not say what the account has
 */
export type AdmitByCredits = (call: ModelCall, estimatedTokens: number, output?: RequestedOutput) => Promise<Admission>;

/** Longer than two renewals of a lease take. Milliseconds. */
const retryAfter = 150;

function insufficient(message = 'This account has no credits left; add some and call again'): GatewayError {
  return new GatewayError('insufficient_credits', message, {
    headers: { 'x-should-retry': 'false' },
  });
}

/**
 * The account has credits that this process has not leased yet: OpenAI's clients retry automatically.
 * @param amount what the call is likely to cost, in micro-credits
 * @param allowance what each process leases, in credits
 */
function tooFast(amount: number, allowance: number): GatewayError {
  const message =
    `This account spends credits faster than the gateway reserves them: this call may cost ${toCredits(amount)} credits, ` +
    `and each process reserves ${allowance} at a time; try again in a moment. ` +
    'The operator can raise CREDIT_ALLOWANCE (the option credits.allowance) to several times the price of a call';
  return new GatewayError('rate_limit_exceeded', message, {
    headers: { 'retry-after': '1', 'retry-after-ms': String(retryAfter), 'x-should-retry': 'true' },
  });
}

/** They need no credits. */
const freeEndpoints: ReadonlySet<string> = new Set(['/moderations', '/responses/input_tokens']);

/** For what is reserved nowhere. */
const noReservation: Admission = { closed() {}, dropped() {} };

/**
 * Decides by an account's credits whether it may make a call.
 * @param database while it is unavailable, no more credits can be leased. @default it is always available
 * @param observer learns what is decided. @default none
 */
export function createCreditAdmission(
  allowances: Allowances,
  ledger: Ledger,
  options: CreditOptions & Required<Pick<CreditOptions, 'allowance'>>,
  database?: Pick<DatabaseAccess, 'isUnavailable'>,
  observer?: CreditObserver,
): AdmitByCredits {
  const { prices, allowance: leaseAmount } = options;
  const hasPrices = Object.values(prices).some((price) => Object.values(price).some((amount) => amount > 0));
  const { expectedOutputTokens = accountRows['credits.expectedOutputTokens'].default } = options;

  function likelyCost({ endpoint, model }: ModelCall, inputTokens: number, output: RequestedOutput): number {
    if (freeEndpoints.has(endpoint)) return 0;
    const { choices, maxTokens = expectedOutputTokens, seconds = 0, characters = 0, stored, tools } = output;
    const images = endpoint.startsWith('/images') ? choices : 0;
    const outputTokens = endpoint === '/embeddings' ? 0 : choices * maxTokens;
    const used = {
      inputTokens,
      cachedInputTokens: 0,
      outputTokens,
      images,
      seconds,
      characters,
      stored,
      estimated: true,
    };
    return costOf(options, { model, endpoint, ...used, ...tools });
  }

  /**
   * A batch or a training may cost more than processes lease, and its upstream may work on it for a day: nothing is reserved, but its account must have as
   * much as it may cost, and something before that is known.
   * @throws GatewayError `insufficient_credits`
   */
  async function requireBalance(userId: string, name: string, amount: number, isKnown: boolean): Promise<void> {
    if (isKnown ? amount === 0 : !hasPrices) return;
    const balance = await ledger.balance(userId);
    if (!isKnown && balance <= 0) throw insufficient();
    if (balance >= amount) return;
    const has = `this account has ${toCredits(balance)}; add some, or make it smaller`;
    throw insufficient(`This ${name} may cost ${toCredits(amount)} credits, and ${has}`);
  }

  /** @throws GatewayError `insufficient_credits`, `rate_limit_exceeded`, `database_unavailable` */
  function reserve(userId: string, amount: number): Admission {
    const allowance = allowances.of(userId);
    const isReserved = amount === 0 || allowance.reserve(amount);
    const { isEmpty } = allowance;
    // a later call looks up an account with nothing left again
    if ((!isReserved && !isEmpty) || (isReserved && amount > 0 && allowance.isRunningLow)) allowances.renewSoon(userId);
    if (!isReserved) {
      // the second: the account has credits, and the database did not answer in time
      if (database?.isUnavailable || (!isEmpty && allowances.isOverdue(userId))) throw databaseUnavailable();
      throw isEmpty ? insufficient() : tooFast(amount, leaseAmount);
    }
    return {
      closed(record) {
        allowance.spend(amount, record.id, costOf(options, record));
        if (allowance.isRunningLow) allowances.renewSoon(userId);
      },
      dropped: () => allowance.release(amount),
    };
  }

  async function requestReservation(call: ModelCall, inputTokens: number, output: RequestedOutput): Promise<Admission> {
    const { model, endpoint } = call;
    const { userId } = call.principal;
    const amount = likelyCost(call, inputTokens, output);
    const longWork = longWorks.get(endpoint);
    if (longWork) {
      await requireBalance(userId, longWork, amount, model !== undefined);
      return noReservation;
    }
    // a free call needs no credits; while the database is unavailable, calls can only spend what is leased already
    if (amount > 0 && !database?.isUnavailable) await allowances.ensureCurrent(userId);
    return reserve(userId, amount);
  }

  return async function admit(call, inputTokens, output = oneAnswer) {
    try {
      const admission = await requestReservation(call, inputTokens, output);
      observer?.admitted();
      return admission;
    } catch (thrown) {
      const error = asUnavailable(thrown);
      if (error instanceof GatewayError) observer?.refused(error.code);
      throw error;
    }
  };
}

/** Learns what credits admit and refuse. */
export interface CreditObserver {
  admitted(): void;
  /** @param code of the error that the caller gets */
  refused(code: ErrorCode): void;
}
