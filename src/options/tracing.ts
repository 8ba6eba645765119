import { checkKeys, refuseOption } from './checks.ts';

/**
 * Who gets the header `traceparent` (W3C Trace Context) with the gateway's requests. Spans are made wherever the host has registered an
 * OpenTelemetry SDK, whatever this says.
 */
export interface TracingOptions {
  /** Whether requests of model calls carry the header `traceparent`, so that an upstream of yours can continue the trace. @default false */
  readonly propagateToUpstreams?: boolean;
  /** Whether deliveries carry the header `traceparent`, so that receivers can continue the trace. It is not part of what is signed. @default false */
  readonly propagateToReceivers?: boolean;
}

const knownOptions = ['propagateToUpstreams', 'propagateToReceivers'] as const;

/** @throws GatewayError `invalid_options`, naming the option */
export function checkTracingOptions(tracing: TracingOptions): void {
  if (typeof tracing !== 'object' || tracing === null)
    refuseOption('tracing', 'must be an object: { propagateToUpstreams: true }');
  checkKeys('tracing', tracing, knownOptions);
  for (const name of knownOptions) {
    if (tracing[name] !== undefined && typeof tracing[name] !== 'boolean') {
      refuseOption(`tracing.${name}`, 'must be true or false');
    }
  }
}
