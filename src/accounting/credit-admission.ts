import { type ErrorCode, GatewayError } from '../errors.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { asUnavailable } from '../mongo/unavailable.ts';
import type { CreditOptions, ModelCall, RequestedOutput } from '../options/options.ts';
import { type Admission, oneAnswer } from '../proxy/admission.ts';
import type { Ledger } from './ledger.ts';
import { dearestField, howToLower, mostCost, mostCostOptions, type Requested } from './most-cost.ts';
import { longWorks, toCredits } from './price.ts';
import type { Reservations, ReserveOutcome } from './reservations.ts';

/**
 * Reserves the most that a call can cost by its own words.
 * @throws GatewayError `insufficient_credits` where that is more than what is left; `database_unavailable`
 */
export type AdmitByCredits = (call: ModelCall, estimatedTokens: number, output?: RequestedOutput) => Promise<Admission>;

export interface CreditAdmissionDeps {
  readonly reservations: Reservations;
  readonly ledger: Ledger;
  readonly options: CreditOptions;
  /** How far below zero a call may reach. Micro-credits. */
  readonly overdraft: number;
  /** While it is unavailable, nothing can be reserved. @default it is always available */
  readonly database?: Pick<DatabaseAccess, 'whenAvailable'> | undefined;
  /** Learns what is decided. @default none */
  readonly observer?: CreditObserver | undefined;
}

function insufficient(message = 'This account has no credits left; add some and call again', param?: string) {
  return new GatewayError('insufficient_credits', message, {
    ...(param !== undefined && { param }),
    headers: { 'x-should-retry': 'false' },
  });
}

/** Says what a call may cost, what is left, and what would make it cheaper. */
function tooDear(
  amount: number,
  { free, reserved }: ReserveOutcome,
  kind: string,
  field: string | undefined,
): GatewayError {
  if (free <= 0 && reserved === 0) return insufficient();
  const held = reserved > 0 ? `, beside ${toCredits(reserved)} that are reserved for calls under way` : '';
  const param = free > 0 ? field : undefined;
  const remedy = param === undefined ? 'add some' : `${howToLower(param)}, or add some`;
  const left = toCredits(Math.max(0, free));
  return insufficient(
    `This ${kind} may cost ${toCredits(amount)} credits, and this account has ${left} left${held}; ${remedy}`,
    param,
  );
}

/** For what is reserved nowhere. */
const noReservation: Admission = { closed() {}, dropped() {} };

/** What is reserved for one call. */
class Reservation implements Admission {
  readonly #reservations: Reservations;
  readonly #userId: string;
  readonly #amount: number;
  /** The record of a call that may outlive this process: it is charged where its end is found, and frees what is reserved. */
  #usageId: string | undefined;

  constructor(reservations: Reservations, userId: string, amount: number) {
    this.#reservations = reservations;
    this.#userId = userId;
    this.#amount = amount;
  }

  closed(): void {
    if (this.#usageId === undefined) this.#reservations.release(this.#userId, this.#amount);
    else this.#reservations.ended(this.#userId, this.#usageId);
  }

  dropped(): void {
    this.closed();
  }

  outlives(usageId: string): void {
    this.#usageId = usageId;
    this.#reservations.keep(this.#userId, this.#amount, usageId);
  }
}

/** Decides by an account's credits whether it may make a call. */
export function createCreditAdmission(deps: CreditAdmissionDeps): AdmitByCredits {
  const { reservations, ledger, overdraft, database, observer } = deps;
  const options = mostCostOptions(deps.options);
  const costOf = (requested: Requested) => mostCost(options, requested);
  const hasPrices = Object.values(options.prices).some((price) => Object.values(price).some((amount) => amount > 0));

  async function admitRequested(userId: string, requested: Requested): Promise<Admission> {
    const { endpoint, model } = requested.call;
    const work = longWorks.get(endpoint);
    if (work && model === undefined) {
      // what it may cost is known when its file was read
      if (hasPrices && (await ledger.balance(userId)) + overdraft <= 0) throw insufficient();
      return noReservation;
    }
    const amount = costOf(requested);
    if (amount === 0) return noReservation;
    await database?.whenAvailable();
    const outcome = await reservations.reserve(userId, amount);
    if (!outcome.isReserved) throw tooDear(amount, outcome, work ?? 'call', dearestField(costOf, requested));
    return new Reservation(reservations, userId, amount);
  }

  return async function admit(call, inputTokens, output = oneAnswer) {
    try {
      const admission = await admitRequested(call.principal.userId, { call, inputTokens, output });
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
