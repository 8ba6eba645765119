import { Registry } from 'prom-client';
import { type DeliveryMetrics, deliveryMetrics } from './delivery-metrics.ts';
import { type ModelMetrics, modelMetrics } from './model-metrics.ts';
import { type RequestMetrics, requestMetrics } from './request-metrics.ts';

/** What a gateway counts and measures. No label names an account, key, webhook or model, so that the number of series is bounded. */
export interface Metrics {
  readonly registry: Registry;
  readonly requests: RequestMetrics;
  readonly models: ModelMetrics;
  readonly deliveries: DeliveryMetrics;
}

/** The metrics of one gateway, in a registry of its own. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  return {
    registry,
    requests: requestMetrics(registers),
    models: modelMetrics(registers),
    deliveries: deliveryMetrics(registers),
  };
}
