import { expect } from 'chai';
import type { Counter, Histogram } from 'prom-client';
import { createMetrics } from '../../src/operator/metrics.ts';

describe('Measurements that are handed over in batches', () => {
  it('are all in the metrics whenever one of them is read, and each once', async () => {
    const { registry, models } = createMetrics();
    const counter = registry.getSingleMetric('gateway_upstream_responses_total') as Counter;
    const histogram = registry.getSingleMetric('gateway_upstream_first_byte_seconds') as Histogram;
    let handedOver = 0;
    const inc = counter.inc.bind(counter) as (...given: unknown[]) => void;
    counter.inc = (...given: unknown[]) => {
      handedOver += 1;
      inc(...given);
    };
    for (let took = 1_000; took < 601_000; took += 1_000) models.upstreamAnswered('a', 200, took);
    expect(handedOver, 'what waits has a bound').to.equal(512);
    expect(await registry.metrics())
      .to.include('gateway_upstream_responses_total{upstream="a",status="2xx"} 600')
      .and.include('gateway_upstream_first_byte_seconds_bucket{le="10",upstream="a",status="2xx"} 10')
      .and.include('gateway_upstream_first_byte_seconds_count{upstream="a",status="2xx"} 600');
    models.upstreamAnswered('a', 200, 5_000);
    const { values } = await histogram.get();
    const count = values.find(({ metricName }) => metricName === 'gateway_upstream_first_byte_seconds_count');
    expect(count?.value).to.equal(601);
    expect(await registry.metrics()).to.include('gateway_upstream_responses_total{upstream="a",status="2xx"} 601');
  });
});
