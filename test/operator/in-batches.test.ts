import { expect } from 'chai';
import { Counter, Histogram, Registry } from 'prom-client';
import { inBatches } from '../../src/operator/metrics.ts';

describe('Measurements that are handed over in batches', () => {
  it('are all in the metrics whenever one of them is read, and each once', async () => {
    const registry = new Registry();
    const common = { help: 'h', registers: [registry] };
    const counter = new Counter({ name: 'c', labelNames: ['kind'], ...common });
    const histogram = new Histogram({ name: 'h', buckets: [10], ...common });
    let handedOver = 0;
    const measured = inBatches(
      (value: number) => {
        handedOver += 1;
        counter.inc({ kind: 'a' });
        histogram.observe(value);
      },
      counter,
      histogram,
    );
    for (let i = 1; i <= 600; i += 1) measured(i);
    expect(handedOver, 'what waits has a bound').to.equal(512);
    expect(await registry.metrics())
      .to.include('c{kind="a"} 600')
      .and.include('h_bucket{le="10"} 10')
      .and.include('h_count 600');
    measured(5);
    const { values } = await histogram.get();
    expect(values.find(({ metricName }) => metricName === 'h_count')?.value).to.equal(601);
    expect(await registry.metrics()).to.include('c{kind="a"} 601');
  });
});
