import OpenAI from 'openai';
import type { ModelGatewayOptions } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { ScriptedUpstream } from '../support/upstream.ts';

/** A gateway with two accounts over two upstreams. */
export interface StoredSetup {
  readonly gateway: LiveGateway;
  /** Serves `m` and `both`. */
  readonly one: ScriptedUpstream;
  /** Serves `other` and `both`. */
  readonly two: ScriptedUpstream;
  /** The official client of `usr_1`. */
  readonly client: OpenAI;
  /** The official client of `usr_2`. */
  readonly stranger: OpenAI;
  readonly strangersKey: string;
  /** Has an object been stored so much earlier. @param milliseconds how much */
  makeOlder(id: string, milliseconds: number): Promise<void>;
  close(): Promise<void>;
}

/** @param timeouts of both upstreams, in milliseconds */
export async function startStored(
  options: Partial<ModelGatewayOptions> = {},
  timeouts: Readonly<Record<string, number>> = {},
): Promise<StoredSetup> {
  const one = await ScriptedUpstream.start();
  const two = await ScriptedUpstream.start();
  const database = await freshDatabase();
  const gateway = await startGateway({
    mongo: database.connection,
    upstreams: [
      { name: 'one', baseUrl: one.baseUrl, models: ['m', 'both'], timeouts },
      { name: 'two', baseUrl: two.baseUrl, models: ['other', 'both'], priority: 1, timeouts },
    ],
    ...options,
  });
  const { key: strangersKey } = await gateway.gateway.keys.create({ userId: 'usr_2' });
  const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  return {
    gateway,
    one,
    two,
    client: clientOf(gateway.key),
    stranger: clientOf(strangersKey),
    strangersKey,
    async makeOlder(id, milliseconds) {
      const stored = database.connection.collection<{ _id: string }>('gateway_stored');
      await stored.updateOne({ _id: id }, [{ $set: { createdAt: { $subtract: ['$createdAt', milliseconds] } } }]);
    },
    async close() {
      // first, for the gateway waits for the end of what an upstream still makes
      await one.close();
      await two.close();
      await gateway.close();
      await database.drop();
    },
  };
}

/** The error with which a call of the official client fails. */
export async function failure(call: PromiseLike<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  try {
    await call;
  } catch (error) {
    return error as InstanceType<typeof OpenAI.APIError>;
  }
  throw new Error('the call should have failed');
}

/** A response as an upstream answers it. */
export const responseOf = (id: string, fields: object = {}) => ({
  id,
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'm',
  output: [
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
    },
  ],
  usage: {
    input_tokens: 30,
    input_tokens_details: { cached_tokens: 10 },
    output_tokens: 20,
    output_tokens_details: { reasoning_tokens: 15 },
    total_tokens: 50,
  },
  vendor_field: { kept: 1e2 },
  ...fields,
});

/** One event of a stream of the Responses API. */
export function event(type: string, number: number, fields: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...fields })}\n\n`;
}

/** A whole stream of the Responses API. */
export function streamOf(id: string): string[] {
  return [
    event('response.created', 0, { response: { object: 'response', conversation: { id: 'conv_9' }, id, usage: null } }),
    event('response.output_text.delta', 1, { item_id: 'msg_1', output_index: 0, content_index: 0, delta: 'Hi' }),
    event('response.completed', 2, { response: responseOf(id) }),
  ];
}
