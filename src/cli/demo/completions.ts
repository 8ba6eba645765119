import { randomUUID } from 'node:crypto';
import { echoOf, wordsOf } from './echo.ts';
import { checkModel, DemoError, demoModel } from './model.ts';

interface CompletionRequest {
  readonly model?: unknown;
  readonly prompt?: unknown;
  readonly stream_options?: { readonly include_usage?: unknown };
}

function echo({ model, prompt }: CompletionRequest) {
  checkModel(model);
  const text = Array.isArray(prompt) ? prompt.join(' ') : prompt;
  if (typeof text !== 'string') throw new DemoError('invalid_value', "'prompt' must be a text", 'prompt');
  const pieces = echoOf(text);
  const prompt_tokens = wordsOf(text).length;
  const usage = { prompt_tokens, completion_tokens: pieces.length, total_tokens: prompt_tokens + pieces.length };
  const created = Math.floor(Date.now() / 1000);
  return {
    pieces,
    usage,
    common: { id: `cmpl-${randomUUID()}`, object: 'text_completion', created, model: demoModel.id },
  };
}

function choice(text: string, finish_reason: string | null): object {
  return { index: 0, text, logprobs: null, finish_reason };
}

/** The answer to a text completion that does not stream. @throws DemoError for another model or no prompt */
export function completion(request: CompletionRequest): object {
  const { common, pieces, usage } = echo(request);
  return { ...common, choices: [choice(pieces.join(''), 'stop')], usage };
}

/** The chunks of one that streams. @throws DemoError for another model or no prompt */
export function completionChunks(request: CompletionRequest): object[] {
  const { common, pieces, usage } = echo(request);
  const chunks = pieces.map((text, i) => choice(text, i === pieces.length - 1 ? 'stop' : null));
  const last = request.stream_options?.include_usage === true ? [{ ...common, choices: [], usage }] : [];
  return [...chunks.map((chunk) => ({ ...common, choices: [chunk] })), ...last];
}
