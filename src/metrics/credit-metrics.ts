import { Counter, type Registry } from 'prom-client';
import type { CreditObserver } from '../accounting/credits/credit-observer.ts';
import { inBatches } from './in-batches.ts';

/** Counts what credits admit and refuse. */
export function creditMetrics(registers: Registry[]): CreditObserver {
  const admissions = new Counter({
    name: 'gateway_credit_admissions_total',
    help: 'Model calls that credits have admitted, or refused by the code of the error; not one where credits are off',
    labelNames: ['outcome'],
    registers,
  });
  const count = inBatches((outcome: string) => admissions.inc({ outcome }), admissions);
  return { admitted: () => count('admitted'), refused: count };
}
