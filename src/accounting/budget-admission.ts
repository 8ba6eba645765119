import { GatewayError } from '../errors.ts';
import { withTimeout } from '../mongo/periodic.ts';
import { type Budget, type BudgetPeriod, type BudgetUnit, budgetUnits } from '../options/budgets.ts';
import type { CreditOptions, Logger, ModelCall, Quota, RequestedOutput } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import { type Admission, oneAnswer } from '../proxy/admission.ts';
import { type Amounts, needTotal, type ReadUsed, resetOf, type UsedAmounts } from './budgets.ts';
import {
  dearestField,
  howToLower,
  type MostCostOptions,
  mostCost,
  mostCostOptions,
  mostTokens,
  type Requested,
} from './most-cost.ts';
import { longWorks, microCreditsPerCredit } from './price.ts';
import type { QuotaOf } from './thresholds.ts';

/**
 * Reserves the most that a call can use by its own words in the budgets and quotas of its account and its key; `undefined` where it has none. Answers at
 * once unless something has to be read.
 * @throws GatewayError `insufficient_quota` where that is more than what is left
 */
export type AdmitByBudgets = (
  call: ModelCall,
  estimatedTokens: number,
  output?: RequestedOutput,
) => Admission | Promise<Admission | undefined> | undefined;

export interface BudgetAdmissionDeps {
  readonly readUsed: ReadUsed;
  /** `undefined` where no quotas are enforced. */
  readonly quotaOf: QuotaOf | undefined;
  /** The budgets of accounts of callers that do not tell them. @default none */
  readonly readAccountBudgets?: (caller: Principal) => ReturnType<ReadAccountBudgets> | undefined;
  /** What calls cost. @default nothing */
  readonly credits?: CreditOptions | undefined;
  readonly logger: Logger;
}

/** A budget, and what it is called in the refusal. */
interface Rule {
  readonly owner: 'account' | 'API key';
  readonly kind: 'quota' | 'budget';
  readonly budget: Budget;
}

/** A quota of the option `quotas`, as the rules that it comes to. */
function quotaRules(quota: Quota | undefined): Rule[] {
  if (!quota) return [];
  const { unit, daily, monthly } = quota;
  const maxima = [['day', daily] as const, ['month', monthly] as const];
  return maxima.flatMap(([period, maximum]) =>
    maximum === undefined ? [] : [{ owner: 'account', kind: 'quota', budget: { period, [unit]: maximum } }],
  );
}

function budgetRules(owner: Rule['owner'], budgets: readonly Budget[]): Rule[] {
  return budgets.map((budget) => ({ owner, kind: 'budget', budget }));
}

const none: readonly Budget[] = [];

/** How much is counted as one of each unit, so that amounts are whole. */
const scales = { tokens: 1, requests: 1, credits: microCreditsPerCredit } as const;
const amountNames = { tokens: 'tokens', requests: 'requests', credits: 'microCredits' } as const;

/** The most that a call can use. */
interface Need {
  readonly amounts: Amounts;
  readonly isRequest: boolean;
  /** What the refusal calls the call. */
  readonly kind: string;
  /** The field that makes it need less of a unit if it is lowered; `undefined` where none does. */
  readonly fieldOf: (unit: BudgetUnit) => string | undefined;
}

function needOf(options: MostCostOptions, requested: Requested): Need {
  const tokens = (request: Requested) => mostTokens(options, request);
  const credits = (request: Requested) => mostCost(options, request);
  const { call, output } = requested;
  const kind = longWorks.get(call.endpoint);
  // what it may use is known when its file was read
  const isUnread = kind !== undefined && call.model === undefined;
  const { stored, counts = 'request' } = output;
  const isRequest = counts === 'request';
  return {
    isRequest,
    amounts: isUnread
      ? { tokens: 0, requests: 0, microCredits: 0 }
      : { tokens: tokens(requested), requests: stored || !isRequest ? 0 : 1, microCredits: credits(requested) },
    kind: kind ?? 'call',
    fieldOf: (unit) => (unit === 'requests' ? undefined : dearestField({ tokens, credits }[unit], requested)),
  };
}

const adjectives: Readonly<Record<BudgetPeriod, string>> = { day: 'daily', month: 'monthly', total: 'total' };

function insufficient(message: string, param?: string): GatewayError {
  const headers = { 'x-should-retry': 'false' };
  return new GatewayError('insufficient_quota', message, { ...(param !== undefined && { param }), headers });
}

/** Requires room for a call in one budget. @param reserved for calls under way @throws GatewayError `insufficient_quota` */
function requireRoom({ owner, kind, budget }: Rule, used: UsedAmounts, reserved: Amounts, need: Need): void {
  const { period } = budget;
  const states = budgetUnits.flatMap((unit) => {
    const [maximum, scale, name] = [budget[unit], scales[unit], amountNames[unit]];
    if (maximum === undefined || (unit === 'requests' && !need.isRequest)) return [];
    const amounts = { spent: used[period][name], held: reserved[name], needed: need.amounts[name] };
    return [{ unit, scale, maximum, free: Math.round(maximum * scale) - amounts.spent, ...amounts }];
  });
  const state =
    states.find(({ free }) => free <= 0) ?? states.find(({ free, held, needed }) => needed > 0 && held + needed > free);
  if (!state) return;
  const { unit, scale, maximum, free, spent, held, needed } = state;
  const reset = resetOf(period, used.at);
  const ending = reset ? `it resets at ${reset.toISOString()}` : 'it does not reset';
  const name = `its ${adjectives[period]} ${kind} of ${maximum} ${unit}`;
  if (free <= 0) throw insufficient(`This ${owner} has used up ${name} (${spent / scale} used); ${ending}`);
  const left = Math.max(0, free - held);
  const param = left > 0 ? need.fieldOf(unit) : undefined;
  const may = `may ${unit === 'credits' ? 'cost' : 'use'} ${needed / scale} ${unit}`;
  const others = held > 0 ? `, beside ${held / scale} that are reserved for calls under way` : '';
  const remedy = param === undefined ? '' : `${howToLower(param)}; `;
  throw insufficient(
    `This ${need.kind} ${may}, and this ${owner} has ${left / scale} left of ${name}${others}; ${remedy}${ending}`,
    param,
  );
}

/** What is reserved for calls under way in this process, by whose they are. */
class CallsUnderWay {
  readonly #sums = new Map<string, { calls: number } & { -readonly [Name in keyof Amounts]: Amounts[Name] }>();

  /** Of an account or a key. */
  of(owner: string): Amounts {
    return this.#sums.get(owner) ?? { tokens: 0, requests: 0, microCredits: 0 };
  }

  /** @param sign -1 where the call has ended */
  add(owner: string, { tokens, requests, microCredits }: Amounts, sign: 1 | -1): void {
    const sums = this.#sums.get(owner) ?? { calls: 0, tokens: 0, requests: 0, microCredits: 0 };
    sums.calls += sign;
    sums.tokens += sign * tokens;
    sums.requests += sign * requests;
    sums.microCredits += sign * microCredits;
    if (sums.calls > 0) this.#sums.set(owner, sums);
    else this.#sums.delete(owner);
  }
}

/** Some rules, and whose usage decides them. */
interface Check {
  readonly rules: readonly Rule[];
  /** Whose calls under way count. */
  readonly owner: string;
  readonly cache: ReadCache<UsedAmounts>;
  /** The key of that usage in the cache. */
  readonly key: string;
  readonly read: () => Promise<UsedAmounts>;
}

/**
 * Decides by budgets and quotas whether a call may be made. What has been counted decides, about a second after a call has ended, and what is reserved for calls
 * under way in this process. So a caller may exceed a budget by what it uses in that second, and by its calls in other processes. Nothing is
 * read for a key of the gateway's own that has none of these.
 */
export function createBudgetAdmission(deps: BudgetAdmissionDeps): AdmitByBudgets {
  const { readUsed, quotaOf, readAccountBudgets, logger } = deps;
  const options = mostCostOptions(deps.credits);
  const accounts = new ReadCache<UsedAmounts>(logger);
  const keys = new ReadCache<UsedAmounts>(logger);
  const underWay = new CallsUnderWay();

  function checksOf({ userId, keyId = '', budgets = none }: Principal, accountBudgets: readonly Budget[]): Check[] {
    const quota = quotaOf?.(userId);
    const checks: Check[] = [];
    const ofAccount = [...quotaRules(quota), ...budgetRules('account', accountBudgets)];
    if (ofAccount.length > 0) {
      const withTotal = needTotal(accountBudgets);
      const key = JSON.stringify([userId, withTotal]);
      const read = () => readUsed.ofAccount(userId, withTotal);
      checks.push({ rules: ofAccount, owner: JSON.stringify([userId]), cache: accounts, key, read });
    }
    if (budgets.length > 0) {
      const withTotal = needTotal(budgets);
      const key = JSON.stringify([userId, keyId, withTotal]);
      const read = async () => (await readUsed.ofKeys(userId, [keyId], withTotal)).get(keyId) as UsedAmounts;
      const owner = JSON.stringify([userId, keyId]);
      checks.push({ rules: budgetRules('API key', budgets), owner, cache: keys, key, read });
    }
    return checks;
  }

  /** Reserves what a call needs, all at once. @param used what is known of each check; without it, the check admits */
  function reserve(checks: readonly Check[], used: readonly (UsedAmounts | undefined)[], requested: Requested) {
    const need = needOf(options, requested);
    for (const [i, { rules, owner }] of checks.entries()) {
      const known = used[i];
      if (known) for (const rule of rules) requireRoom(rule, known, underWay.of(owner), need);
    }
    for (const { owner } of checks) underWay.add(owner, need.amounts, 1);
    const release = () => {
      for (const { owner } of checks) underWay.add(owner, need.amounts, -1);
    };
    return { closed: release, dropped: release };
  }

  function admit(requested: Requested, checks: readonly Check[]): Admission | Promise<Admission> | undefined {
    if (checks.length === 0) return undefined;
    const fresh = checks.map(({ cache, key }) => cache.fresh(key));
    if (!fresh.includes(undefined)) return reserve(checks, fresh, requested);
    const known = checks.map(({ cache, key, read }, i) => fresh[i] ?? cache.read(key, read));
    return Promise.all(known).then((used) => reserve(checks, used, requested));
  }

  return (call, inputTokens, output = oneAnswer) => {
    const { principal } = call;
    const requested = { call, inputTokens, output };
    const accountBudgets = principal.accountBudgets ?? readAccountBudgets?.(principal) ?? none;
    if ('then' in accountBudgets) {
      return accountBudgets.then((budgets) => admit(requested, checksOf(principal, budgets)));
    }
    return admit(requested, checksOf(principal, accountBudgets));
  };
}

/** Reads the budgets of an account: at once, if they are known. */
export type ReadAccountBudgets = (userId: string) => readonly Budget[] | Promise<readonly Budget[]>;

/**
 * Reads the budgets of accounts whose callers a host authenticates, at most about a second late. A call waits for that only if
 * its account has had budgets; for any other account it is read beside the call.
 */
export function createReadAccountBudgets(
  read: (userId: string) => Promise<readonly Budget[]>,
  logger: Logger,
): ReadAccountBudgets {
  const cache = new ReadCache<readonly Budget[]>(logger);
  return (userId) => {
    const fresh = cache.fresh(userId);
    if (fresh) return fresh;
    const reading = cache.read(userId, () => read(userId)).then((budgets = []) => budgets);
    return cache.stale(userId)?.length ? reading : [];
  };
}

/** How long what was read is used. Milliseconds. */
const lifetime = 1_000;
/** How long a call waits for a read. Milliseconds. */
const longestRead = 1_000;
/** The most that is remembered. */
const capacity = 10_000;

/** Keeps what was read for a second: so what is needed all the time costs one read in a second. */
class ReadCache<T> {
  readonly #logger: Logger;
  /** `readAt` is when the read began, by `performance.now()`. */
  readonly #entries = new Map<string, { readonly value: T; readonly readAt: number }>();
  readonly #reading = new Map<string, Promise<T | undefined>>();
  #isFailing = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** What was read less than a second ago. */
  fresh(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry && performance.now() - entry.readAt < lifetime ? entry.value : undefined;
  }

  /** What was read last, however old. */
  stale(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Reads it, once for all who need it at the same time. If the database does not answer: what was read last, if anything. */
  read(key: string, read: () => Promise<T>): Promise<T | undefined> {
    const present = this.#reading.get(key) ?? this.#readNow(key, read);
    this.#reading.set(key, present);
    return present;
  }

  async #readNow(key: string, read: () => Promise<T>): Promise<T | undefined> {
    const readAt = performance.now();
    try {
      const value = await withTimeout(read(), longestRead, false);
      this.#isFailing = false;
      this.#entries.delete(key);
      this.#entries.set(key, { value, readAt });
      if (this.#entries.size > capacity) this.#entries.delete(this.#entries.keys().next().value as string);
      return value;
    } catch (error) {
      if (!this.#isFailing) this.#logger.warn('budgets could not be read', { reason: String(error) });
      this.#isFailing = true;
      return this.#entries.get(key)?.value;
    } finally {
      this.#reading.delete(key);
    }
  }
}
