import type { Random } from '../../faults/random.ts';
import { events, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const common = { id: 'chatcmpl-1', created: 1, model: 'm' };

/** An upstream whose answers have used something else each time, streamed or not: 20 tokens each way at most. */
export async function startMeteredUpstream(random: Random): Promise<ScriptedUpstream> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = (res, request) => {
    const prompt_tokens = 10 + random.below(11);
    const completion_tokens = 1 + random.below(20);
    const usage = {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      prompt_tokens_details: { cached_tokens: random.below(prompt_tokens) },
    };
    const text = { role: 'assistant', content: 'Enough.' };
    const asStream = JSON.parse(String(request.body)).stream === true;
    const script: Script = asStream
      ? events([
          { ...common, object: 'chat.completion.chunk', choices: [{ index: 0, delta: text, finish_reason: 'stop' }] },
          { ...common, object: 'chat.completion.chunk', choices: [], usage },
        ])
      : json(200, { ...common, object: 'chat.completion', choices: [{ index: 0, message: text }], usage });
    return script(res, request);
  };
  return upstream;
}
