import { expect } from 'chai';
import { GatewayError } from '../../src/index.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };
type AdmissionCheck = NonNullable<NonNullable<Parameters<typeof startModelServer>[0]['admissionChecks']>[number]>;

const refusal = () => new GatewayError('rate_limit_exceeded', 'Too much', { headers: { 'retry-after': '7' } });

describe('the admission checks of a model call', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let told: string[];
  let second: AdmissionCheck;

  const first: AdmissionCheck = (call, estimatedTokens) => {
    told.push(`${call.endpoint} ${call.principal.userId} ${estimatedTokens > 0}`);
    return {
      headers: { 'x-first': 'seen' },
      closed: ({ inputTokens }) => told.push(`closed ${inputTokens}`),
      dropped: () => told.push('dropped'),
    };
  };

  beforeEach(async () => {
    told = [];
    second = () => undefined;
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 4, completion_tokens: 1 } });
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, models: ['m'] }],
      admissionChecks: [first, (...asked) => second(...asked)],
    });
  });

  afterEach(async () => {
    await server.close();
    await upstream.close();
  });

  const failure = (options: Partial<typeof ask> = {}) =>
    server
      .client()
      .chat.completions.create({ ...ask, ...options })
      .then(
        () => expect.fail('the call should have failed'),
        (error) => error,
      );

  it('let a call through, add headers to its answer, and receive its usage', async () => {
    const { response } = await server.client().chat.completions.create(ask).withResponse();
    expect(response.headers.get('x-first')).to.equal('seen');
    expect(told).to.deep.equal(['/chat/completions usr_1 true', 'closed 4']);
  });

  it('refuse a call before its upstream is called, and the checks that admitted it are told', async () => {
    second = () => {
      throw refusal();
    };
    const error = await failure();
    expect(error).to.include({ status: 429, code: 'rate_limit_exceeded' });
    expect(error.headers.get('retry-after')).to.equal('7');
    expect(error.headers.get('x-first')).to.equal('seen');
    expect(told.slice(1)).to.deep.equal(['dropped']);
    expect(upstream.requests).to.have.length(0);
  });

  it('are told when a call is answered with an error, or when no upstream serves it', async () => {
    upstream.script = json(422, { error: { message: 'no' } });
    await failure();
    await failure({ model: 'unknown' });
    expect(told.filter((line) => line === 'dropped')).to.have.length(2);
  });
});
