import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';

/** One call that was answered. */
export interface AnsweredCall {
  readonly requestId: string;
  /** Of the process that answered. */
  readonly url: string;
  /** What the answer says it used; not of streams. */
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number } | undefined;
}

export interface CrowdOptions {
  readonly clients: number;
  /** Calls of each. */
  readonly calls: number;
  readonly apiKey: string;
  /** Where the gateways are; each client goes on at the next one when its own is gone. */
  readonly urls: readonly string[];
  readonly modelOf: (call: number) => string;
  /** Told before each call how many calls have ended, of all clients together, and which were answered; the call waits for what it returns. */
  readonly onProgress: (ended: number, answered: readonly AnsweredCall[]) => Promise<unknown> | undefined;
}

/** What became of all calls. */
export interface CrowdOutcome {
  readonly answered: readonly AnsweredCall[];
  /** Calls refused because nothing was left. */
  readonly refused: number;
  /** Tries that ended without an answer that says what became of the call, and were made again. */
  readonly broken: number;
  /** Tries that were told to come again: what was left had been set aside elsewhere. */
  readonly putOff: number;
}

const messages = [{ role: 'user' as const, content: 'How much is left?' }];

async function readToEnd(stream: AsyncIterable<unknown>): Promise<undefined> {
  for await (const _ of stream);
}

function usageOf({ usage }: OpenAI.ChatCompletion): AnsweredCall['usage'] {
  return usage && { inputTokens: usage.prompt_tokens, outputTokens: usage.completion_tokens };
}

/** Official clients of one account that call at the same time, every third call as a stream, until each has made its calls. */
export async function callTogether(options: CrowdOptions): Promise<CrowdOutcome> {
  const { urls, apiKey } = options;
  const clients = new Map(
    urls.map((url) => [url, new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, timeout: 60_000 })]),
  );
  const answered: AnsweredCall[] = [];
  let refused = 0;
  let broken = 0;
  let putOff = 0;

  async function callOnce(url: string, number: number): Promise<void> {
    const client = clients.get(url) as OpenAI;
    const stream = number % 3 === 0;
    const request = client.chat.completions.create({ model: options.modelOf(number), messages, stream });
    const { data, request_id } = await request.withResponse();
    const usage = Symbol.asyncIterator in data ? await readToEnd(data) : usageOf(data);
    answered.push({ requestId: String(request_id), url, usage });
  }

  async function be(client: number): Promise<void> {
    let at = client % urls.length;
    for (let made = 0; made < options.calls; ) {
      const url = urls[at] as string;
      try {
        await callOnce(url, made);
        made += 1;
      } catch (error) {
        const status = error instanceof OpenAI.APIError ? error.status : undefined;
        if (status === 402) {
          refused += 1;
          made += 1;
        } else if (status === 429) {
          putOff += 1;
          // as a client that is told to come back later
          await sleep(50);
        } else {
          broken += 1;
          if (status === undefined) at = (at + 1) % urls.length;
          // as a client that tries again
          await sleep(20);
        }
      }
      await options.onProgress(answered.length + refused, answered);
    }
  }

  await Promise.all(Array.from({ length: options.clients }, (_, client) => be(client)));
  return { answered, refused, broken, putOff };
}
