import { createOpenAI } from '@ai-sdk/openai';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { Agent, tool as agentTool, OpenAIProvider, Runner } from '@openai/agents';
import { embed, generateText, stepCountIs, streamText, tool } from 'ai';
import { expect } from 'chai';
import { z } from 'zod';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { ScriptedUpstream } from '../support/upstream.ts';
import { provider } from './provider.ts';

/** What one framework does through the gateway; each call resolves to what the framework has made of the answer. */
interface Framework {
  plain(): Promise<unknown>;
  streamed(): Promise<unknown>;
  /** Lets the model call a tool; resolves to the arguments that the tool is called with. */
  callsTool(): Promise<unknown>;
  streamedTool(): Promise<unknown>;
  embeds?(): Promise<unknown>;
}

const description = 'The weather of a city';
const parameters = z.object({ city: z.string() });

async function join(parts: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const part of parts) text += part;
  return text;
}

function agents(gateway: LiveGateway, useResponses: boolean): Framework {
  const modelProvider = new OpenAIProvider({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key, useResponses });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const plain = new Agent({ name: 'plain', model: 'm' });
  const called: unknown[] = [];
  const execute = (input: unknown) => {
    called.push(input);
    return 'sunny';
  };
  const weather = agentTool({ name: 'weather', description, parameters, execute });
  const withTool = new Agent({ name: 'with a tool', model: 'm', tools: [weather] });
  const streamed = async (agent: typeof plain) => {
    const result = await runner.run(agent, 'Hi', { stream: true });
    const text = await join(result.toTextStream());
    await result.completed;
    return text;
  };
  return {
    plain: async () => (await runner.run(plain, 'Hi')).finalOutput,
    streamed: () => streamed(plain),
    async callsTool() {
      expect((await runner.run(withTool, 'Weather?')).finalOutput).to.equal('Hello');
      return called.pop();
    },
    async streamedTool() {
      expect(await streamed(withTool)).to.equal('Hello');
      return called.pop();
    },
  };
}

function vercel(gateway: LiveGateway, endpoint: 'chat' | 'responses'): Framework {
  const openai = createOpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.key });
  const model = openai[endpoint]('m');
  const called: unknown[] = [];
  const execute = (input: unknown) => {
    called.push(input);
    return 'sunny';
  };
  const tools = { weather: tool({ description, inputSchema: parameters, execute }) };
  const asked = { model, prompt: 'Hi', maxRetries: 0 };
  const withTool = { ...asked, tools, stopWhen: stepCountIs(2) };
  return {
    plain: async () => (await generateText(asked)).text,
    streamed: async () => join(streamText(asked).textStream),
    async callsTool() {
      expect((await generateText(withTool)).text).to.equal('Hello');
      return called.pop();
    },
    async streamedTool() {
      expect(await join(streamText(withTool).textStream)).to.equal('Hello');
      return called.pop();
    },
    embeds: async () => (await embed({ model: openai.textEmbeddingModel('m'), value: 'Hi', maxRetries: 0 })).embedding,
  };
}

function langChain(gateway: LiveGateway, useResponsesApi: boolean): Framework {
  const configuration = { baseURL: `${gateway.url}/v1` };
  const options = { model: 'm', apiKey: gateway.key, maxRetries: 0, configuration };
  const model = new ChatOpenAI({ ...options, useResponsesApi });
  const withTool = model.bindTools([{ name: 'weather', description, schema: parameters }]);
  const streamed = async (asked: Pick<typeof model, 'stream'>) => {
    const parts = [];
    for await (const part of await asked.stream('Hi')) parts.push(part);
    return parts.reduce((whole, part) => whole.concat(part));
  };
  return {
    plain: async () => (await model.invoke('Hi')).text,
    streamed: async () => (await streamed(model)).text,
    callsTool: async () => (await withTool.invoke('Weather?')).tool_calls?.[0]?.args,
    streamedTool: async () => (await streamed(withTool)).tool_calls?.[0]?.args,
    embeds: () => new OpenAIEmbeddings(options).embedQuery('Hi'),
  };
}

const frameworks: Readonly<Record<string, [create: (gateway: LiveGateway) => Framework, path: string]>> = {
  'OpenAI Agents SDK on responses': [(gateway) => agents(gateway, true), '/v1/responses'],
  'OpenAI Agents SDK on chat completions': [(gateway) => agents(gateway, false), '/v1/chat/completions'],
  'Vercel AI SDK on responses': [(gateway) => vercel(gateway, 'responses'), '/v1/responses'],
  'Vercel AI SDK on chat completions': [(gateway) => vercel(gateway, 'chat'), '/v1/chat/completions'],
  'LangChain on responses': [(gateway) => langChain(gateway, true), '/v1/responses'],
  'LangChain on chat completions': [(gateway) => langChain(gateway, false), '/v1/chat/completions'],
};

describe('JavaScript frameworks', () => {
  let upstream: ScriptedUpstream;
  let live: LiveGateway;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = provider;
    live = await startGateway({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] });
  });
  after(async () => {
    await live?.close();
    await upstream?.close();
  });

  for (const [name, [create, path]] of Object.entries(frameworks)) {
    it(`chat, stream and call tools through the gateway, and embed if they can: ${name}`, async () => {
      const framework = create(live);
      expect(await framework.plain()).to.equal('Hello');
      expect(upstream.last.path).to.equal(path);
      expect(await framework.streamed()).to.equal('Hello');
      expect(JSON.parse(upstream.last.body.toString())).to.include({ model: 'm', stream: true });
      expect(await framework.callsTool()).to.deep.equal({ city: 'Porto' });
      expect(await framework.streamedTool()).to.deep.equal({ city: 'Porto' });
      if (framework.embeds) expect(await framework.embeds()).to.deep.equal([0.25, -0.5]);
    });
  }
});
