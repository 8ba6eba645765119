import { type ErrorCode, GatewayError } from '../../errors.ts';
import type { AdmitByCredits } from './credit-admission.ts';

/** Learns what credits admit and refuse. */
export interface CreditObserver {
  admitted(): void;
  /** @param code of the error that the caller gets */
  refused(code: ErrorCode): void;
}

/** The same decisions, told to an observer. */
export function withCreditObserver(admit: AdmitByCredits, observer: CreditObserver): AdmitByCredits {
  return async function admitObserved(...call) {
    try {
      const reservation = await admit(...call);
      observer.admitted();
      return reservation;
    } catch (error) {
      if (error instanceof GatewayError) observer.refused(error.code);
      throw error;
    }
  };
}
