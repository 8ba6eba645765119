import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { callerKey, limitedKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const ask = { model: 'rerank-1', query: 'Where?', documents: ['here', { text: 'there' }], top_n: 1, vendor_field: 1.0 };
const results = [{ index: 1, relevance_score: 0.9, document: { text: 'there', usage: { total_tokens: 9_000 } } }];
/** Of a request whose answer says no tokens. */
const estimated = { inputTokens: Math.ceil(JSON.stringify(ask).length / 4), estimated: true };
const used = { endpoint: '/rerank', model: 'rerank-1', ending: 'complete', outputTokens: 0, estimated: false };

interface Failure {
  readonly error: { readonly param: string | null; readonly code: string };
}

describe('POST /v1/rerank', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  const records: UsageRecord[] = [];
  let isDisconnected = false;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer(
      {
        upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, aliases: { best: 'vendor/rerank-2' } }],
        hooks: { onUsage: (record) => void records.push(record) },
      },
      [
        (_req, res, next) => {
          res.once('close', () => {
            isDisconnected = true;
          });
          next();
        },
      ],
    );
  });
  beforeEach(() => {
    records.length = 0;
    upstream.requests.length = 0;
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  function rerank(body: object, key = callerKey): Promise<Response> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    return fetch(`${server.baseUrl}/rerank`, { method: 'POST', headers, body: JSON.stringify(body) });
  }

  const answers: [whose: string, answer: object, amounts: Partial<UsageRecord>][] = [
    ['Jina', { model: 'm', results, usage: { total_tokens: 15, prompt_tokens: 15 } }, { inputTokens: 15, units: 1 }],
    ['vLLM', { id: 'rerank-1', results, usage: { total_tokens: 56 } }, { inputTokens: 56, units: 1 }],
    ['Cohere', { results, meta: { billed_units: { search_units: 3 } } }, { ...estimated, units: 3 }],
    [
      'LiteLLM',
      { results, meta: { billed_units: { search_units: 2 }, tokens: { input_tokens: 7, output_tokens: 0 } } },
      { inputTokens: 7, units: 2 },
    ],
    [
      'a server that counts tokens as billed',
      { results, meta: { billed_units: { total_tokens: 8 } } },
      { inputTokens: 8 },
    ],
  ];
  for (const [whose, answer, amounts] of answers) {
    it(`is relayed as it comes, and counted as ${whose} reports it`, async () => {
      upstream.script = json(200, answer);
      const response = await rerank(ask);
      expect(await response.json()).to.deep.equal(answer);
      expect(upstream.last.path).to.equal('/v1/rerank');
      expect(JSON.parse(upstream.last.body.toString())).to.deep.equal(ask);
      await until(() => records.length > 0);
      expect(records[0]).to.include({ ...used, ...amounts });
    });
  }

  it('is counted as one unit where nothing is reported', async () => {
    upstream.script = json(200, { results });
    await (await rerank(ask)).text();
    await until(() => records.length > 0);
    expect(records[0]).to.include({ ...used, ...estimated, units: 1 });
  });

  it('is counted by its answer where the client leaves before that says what it is charged for', async () => {
    isDisconnected = false;
    const long = Buffer.from(JSON.stringify({ text: 'x'.repeat(300_000), results }).slice(0, -1));
    let finish: () => void = () => {};
    upstream.script = (res) => {
      res.writeHead(200, { 'content-type': 'application/json' }).write(long);
      finish = () => res.end(',"meta":{"billed_units":{"search_units":7}}}');
    };
    const headers = { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' };
    const leaving = new AbortController();
    const { signal } = leaving;
    const response = await fetch(`${server.baseUrl}/rerank`, {
      method: 'POST',
      headers,
      body: JSON.stringify(ask),
      signal,
    });
    let read = 0;
    const reading = (async () => {
      for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) {
        read += part.length;
        if (read >= long.length) leaving.abort();
      }
    })();
    await reading.catch(() => {});
    await until(() => isDisconnected);
    finish();
    await until(() => records.length > 0);
    expect(records[0]).to.include({ units: 7, ending: 'client_left' });
  });

  it("goes up with the upstream's name of its model", async () => {
    upstream.script = json(200, { results });
    await (await rerank({ ...ask, model: 'best' })).text();
    expect(JSON.parse(upstream.last.body.toString())).to.deep.equal({ ...ask, model: 'vendor/rerank-2' });
  });

  it('is refused without documents, and for a model that its key may not call, before any upstream is called', async () => {
    const { documents: _, ...rest } = ask;
    const missing = await rerank(rest);
    expect([missing.status, ((await missing.json()) as Failure).error.param]).to.deep.equal([400, 'documents']);
    const forbidden = await rerank(ask, limitedKey);
    expect([forbidden.status, ((await forbidden.json()) as Failure).error.code]).to.deep.equal([
      403,
      'model_not_allowed',
    ]);
    expect(upstream.requests).to.have.length(0);
  });

  for (const answer of [{}, { detail: 'Not Found' }]) {
    it(`fails, and costs nothing, where an answer is ${JSON.stringify(answer)}`, async () => {
      upstream.script = json(200, answer);
      const response = await rerank(ask);
      expect([response.status, ((await response.json()) as Failure).error.code]).to.deep.equal([
        502,
        'upstream_invalid_response',
      ]);
      expect(records).to.have.length(0);
    });
  }
});
