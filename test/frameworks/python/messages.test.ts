import { expect } from 'chai';
import { python, skipWithout } from '../../documentation/runtimes.ts';
import { recordedText, sent } from '../../proxy/messages/recorded.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { chunks, json, reset, type Script, ScriptedUpstream } from '../../support/upstream.ts';
import { runProgram } from './program.ts';

const usage = { input_tokens: 3, output_tokens: 1 };
const message = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn', stop_sequence: null },
  content: [{ type: 'text', text: 'Hello' }],
  usage,
};
const batch = { id: 'msgbatch_1', type: 'message_batch', processing_status: 'ended', request_counts: { succeeded: 1 } };
const times = { created_at: '2026-01-01T00:00:00Z', expires_at: '2026-01-02T00:00:00Z' };
const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };

/** What an upstream that speaks Anthropic's API answers. */
function answer(method: string, path: string, { model, stream }: { model?: string; stream?: boolean }): Script {
  if (path.startsWith('/v1/models')) return json(200, { data: [{ type: 'model', id: 'claude', ...times }] });
  if (path.endsWith('/results')) {
    return json(200, Buffer.from(JSON.stringify({ custom_id: 'a', result: { type: 'succeeded', message } })));
  }
  if (path.startsWith('/v1/messages/batches')) {
    const results_url = method === 'GET' ? 'https://api.anthropic.com/v1/messages/batches/msgbatch_1/results' : null;
    return json(200, { ...batch, ...times, results_url });
  }
  if (path.endsWith('/count_tokens')) return json(200, { input_tokens: 12 });
  if (model === 'overloaded') return json(529, overloaded);
  const events = recordedText.events.map(sent);
  if (model === 'breaks') return reset(events.slice(0, 3).join(''));
  return stream ? chunks(events) : json(200, message);
}

describe("Anthropic's client for Python", function () {
  this.timeout(600_000);
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  before(async function () {
    skipWithout(this, python);
    upstream = await ScriptedUpstream.start();
    upstream.script = (res, request) =>
      answer(request.method, request.path, JSON.parse(request.body.toString() || '{}'))(res, request);
    live = await startGateway({
      upstreams: [
        {
          name: 'up',
          baseUrl: upstream.baseUrl,
          apiKey: 'sk-upstream',
          speaks: ['anthropic'],
          models: ['claude', 'breaks', 'overloaded'],
        },
      ],
      modelCalls: { attempts: 1 },
    });
  });
  after(async () => {
    await live?.close();
    await upstream?.close();
  });

  it('gets messages, streams, counts, models, batches and errors as its own classes', async () => {
    expect(await runProgram('messages.py', `${live.url}/v1`, live.key)).to.deep.equal({
      message: 'Hello',
      streamed: ['Hello, Porto 😀', 15],
      counted: 12,
      models: ['claude', 'breaks', 'overloaded'],
      'broken off': ['APIStatusError', 'api_error'],
      overloaded: ['OverloadedError', 'overloaded_error'],
      unknown: ['AuthenticationError', 'authentication_error'],
      missing: ['NotFoundError', 'not_found_error'],
      batch: [['a', 'Hello']],
    });
    for (const { headers } of upstream.requests) expect(headers['x-api-key']).to.equal('sk-upstream');
  });
});
