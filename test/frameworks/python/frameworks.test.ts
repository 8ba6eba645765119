import { expect } from 'chai';
import { python, skipWithout } from '../../documentation/runtimes.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { ScriptedUpstream } from '../../support/upstream.ts';
import { provider } from '../provider.ts';
import { runProgram } from './program.ts';

const said = { plain: 'Hello', streamed: 'Hello', tool: { city: 'Porto' }, streamedTool: { city: 'Porto' } };
const embedding = [0.25, -0.5];

/** What each framework makes of the provider's answers. */
const expected: Readonly<Record<string, object>> = {
  "OpenAI's client on chat completions": { ...said, embedding },
  "OpenAI's client on responses": said,
  'LangChain on chat completions': { ...said, embedding },
  'LangChain on responses': { ...said, embedding },
  LiteLLM: { ...said, embedding },
};

describe('Python frameworks', function () {
  this.timeout(600_000);
  let upstream: ScriptedUpstream;
  let gateway: LiveGateway;
  let outcome: Readonly<Record<string, object>>;

  before(async function () {
    skipWithout(this, python);
    upstream = await ScriptedUpstream.start();
    upstream.script = provider;
    gateway = await startGateway({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] });
    outcome = await runProgram('frameworks.py', `${gateway.url}/v1`, gateway.key);
  });
  after(async () => {
    await gateway?.close();
    await upstream?.close();
  });

  for (const [name, answers] of Object.entries(expected)) {
    it(`chat, stream and call tools through the gateway, and embed if they can: ${name}`, () => {
      expect(outcome[name]).to.deep.equal(answers);
    });
  }

  it('call chat completions, responses and embeddings, and no other endpoint', () => {
    const paths = new Set(upstream.requests.map(({ path }) => path));
    expect([...paths]).to.have.members(['/v1/chat/completions', '/v1/responses', '/v1/embeddings']);
  });
});
