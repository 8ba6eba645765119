import { Registry } from 'prom-client';
import type { CreditObserver } from '../accounting/credits/credit-observer.ts';
import type { RequestObserver } from '../http/operation.ts';
import type { ModelObserver } from '../proxy/observer.ts';
import { creditMetrics } from './credit-metrics.ts';
import { type DeliveryMetrics, deliveryMetrics } from './delivery-metrics.ts';
import { modelMetrics } from './model-metrics.ts';
import { requestMetrics } from './request-metrics.ts';

/** What a gateway counts and measures. No label names an account, key, webhook or model, so that the number of series is bounded. */
export interface Metrics {
  readonly registry: Registry;
  readonly requests: RequestObserver;
  readonly models: ModelObserver;
  readonly deliveries: DeliveryMetrics;
  readonly credits: CreditObserver;
}

/** The metrics of one gateway, in a separate registry. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    registry,
    requests: requestMetrics(registers),
    models: modelMetrics(registers),
    deliveries: deliveryMetrics(registers),
    credits: creditMetrics(registers),
  };
}
