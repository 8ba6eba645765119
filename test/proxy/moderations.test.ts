import { expect } from 'chai';
import type { UsageRecord } from '../../src/index.ts';
import { startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

describe('moderations', () => {
  it('are answered, and recorded as calls without tokens', async () => {
    const upstream = await ScriptedUpstream.start();
    const records: UsageRecord[] = [];
    const server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    const answer = { id: 'modr-1', model: 'm', results: [{ flagged: false, categories: {}, category_scores: {} }] };
    upstream.script = json(200, { ...answer, usage: { prompt_tokens: 9, completion_tokens: 9 } });
    const inputs = ['a', ['a', 'b'], [{ type: 'text' as const, text: 'a' }]];
    for (const input of inputs) {
      expect(await server.client().moderations.create({ input })).to.deep.include(answer);
      expect(JSON.parse(upstream.last.body.toString())).to.deep.equal({ input });
    }
    expect(upstream.last.path).to.equal('/v1/moderations');
    await until(() => records.length === inputs.length);
    for (const record of records) {
      expect(record).to.include({ endpoint: '/moderations', inputTokens: 0, outputTokens: 0, estimated: false });
    }
    await server.close();
    await upstream.close();
  });
});
