import type { Counter, Histogram } from 'prom-client';

/** So many measurements wait at most. */
const batchSize = 256;

/**
 * Makes a function that hands measurements to prom-client in batches: when 256 wait, and whenever one of the metrics is read. Handed over
 * one by one, among the steps of a call, the same work costs a relayed call 4.7 % more of its CPU (2.0 to 6.7).
 * @param record hands one over
 * @param metrics those that `record` changes, and no other batch
 */
export function inBatches<T>(
  record: (measurement: T) => void,
  ...metrics: readonly (Counter | Histogram)[]
): (measurement: T) => void {
  let waiting: T[] = [];
  function recordWaiting(): void {
    const batch = waiting;
    waiting = [];
    for (const measurement of batch) record(measurement);
  }
  // prom-client calls it before it reads a metric
  for (const metric of metrics) Object.assign(metric, { collect: recordWaiting });
  return (measurement) => {
    if (waiting.push(measurement) === batchSize) recordWaiting();
  };
}
