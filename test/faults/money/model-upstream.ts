import { setTimeout as sleep } from 'node:timers/promises';
import { SocketUpstream } from '../../sockets/socket-upstream.ts';
import { FileProvider } from '../../stored/file-provider.ts';
import { events, json, ScriptedUpstream } from '../../support/upstream.ts';
import type { Random } from '../random.ts';
import { maxTokens, type UpstreamUrls } from './options.ts';

/** What the upstream says that a call has used. */
export interface UpstreamAnswer {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** A model provider inside the suite, which knows what it answered to which call. */
export interface ModelUpstream {
  readonly baseUrls: UpstreamUrls;
  /** By the id of the call, which is the `user` of its body. More than one where a gateway asked again. */
  readonly answers: ReadonlyMap<string, readonly UpstreamAnswer[]>;
  close(): Promise<void>;
}

const common = { id: 'chatcmpl-1', created: 1, model: 'm' };
const message = { role: 'assistant', content: 'Enough.' };

export async function startModelUpstream(random: Random): Promise<ModelUpstream> {
  const answers = new Map<string, UpstreamAnswer[]>();
  const upstream = await ScriptedUpstream.start();
  const sockets = await SocketUpstream.start();
  const files = await FileProvider.start();
  function answerTo(user: string): UpstreamAnswer {
    const answer = { inputTokens: 1 + random.below(20), outputTokens: 10 + random.below(maxTokens - 10) };
    answers.set(user, [...(answers.get(user) ?? []), answer]);
    return answer;
  }
  sockets.onEvent = async ({ user }: { readonly user: string }, socket) => {
    // the suite runs for long, and needs the answers alone
    for (const list of [sockets.handshakes, sockets.sockets, sockets.received]) list.length = 0;
    await sleep(random.below(100));
    const id = `resp_${user}`;
    const send = (event: object) => socket.send(JSON.stringify(event));
    send({ type: 'response.created', response: { id, status: 'in_progress' } });
    await sleep(random.below(100));
    const { inputTokens: input_tokens, outputTokens: output_tokens } = answerTo(user);
    const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
    send({ type: 'response.completed', response: { id, status: 'completed', usage } });
  };
  upstream.script = async (res, request) => {
    const { user, stream } = JSON.parse(String(request.body)) as { user: string; stream?: boolean };
    // the suite runs for long, and needs the answers alone
    upstream.requests.length = 0;
    const answer = answerTo(user);
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
  return {
    baseUrls: { models: upstream.baseUrl, sockets: sockets.baseUrl, files: files.baseUrl },
    answers,
    async close() {
      await Promise.all([upstream.close(), sockets.close(), files.close()]);
    },
  };
}
