import { setTimeout as sleep } from 'node:timers/promises';
import { events, json, ScriptedUpstream } from '../../support/upstream.ts';
import type { Random } from '../random.ts';
import { maxTokens } from './options.ts';

/** What the upstream says that a call has used. */
export interface UpstreamAnswer {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A model provider inside the suite, which knows what it answered to which call. */
export interface ModelUpstream {
  readonly baseUrl: string;
  /** By the id of the call, which is the `user` of its body. More than one where a gateway asked again. */
  readonly answers: ReadonlyMap<string, readonly UpstreamAnswer[]>;
  close(): Promise<void>;
}

const common = { id: 'chatcmpl-1', created: 1, model: 'm' };
const message = { role: 'assistant', content: 'Enough.' };

export async function startModelUpstream(random: Random): Promise<ModelUpstream> {
  const answers = new Map<string, UpstreamAnswer[]>();
  const upstream = await ScriptedUpstream.start();
  upstream.script = async (res, request) => {
    const { user, stream } = JSON.parse(String(request.body)) as { user: string; stream?: boolean };
    // the suite runs for long, and needs the answers alone
    upstream.requests.length = 0;
    const answer = { inputTokens: 1 + random.below(20), outputTokens: 10 + random.below(maxTokens - 10) };
    answers.set(user, [...(answers.get(user) ?? []), answer]);
    const usage = {
      prompt_tokens: answer.inputTokens,
      completion_tokens: answer.outputTokens,
      total_tokens: answer.inputTokens + answer.outputTokens,
    };
    await sleep(random.below(100));
    const script = stream
      ? events([
          {
            ...common,
            object: 'chat.completion.chunk',
            choices: [{ index: 0, delta: message, finish_reason: 'stop' }],
          },
          { ...common, object: 'chat.completion.chunk', choices: [], usage },
        ])
      : json(200, { ...common, object: 'chat.completion', choices: [{ index: 0, message }], usage });
    await script(res, request);
  };
  return { baseUrl: upstream.baseUrl, answers, close: () => upstream.close() };
}
