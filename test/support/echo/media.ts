import { randomUUID } from 'node:crypto';
import { checkModel, DemoError, demoModel, echoOf, wordsOf } from '../../../src/cli/demo/chat.ts';

/** Samples a second, one byte each. */
const sampleRate = 8_000;
const header = 44;

/** Half a second of a tone, as WAV (RIFF, 8-bit PCM): the demo speaks nothing. */
export function speech(): Buffer {
  const samples = sampleRate / 2;
  const wav = Buffer.alloc(header + samples);
  wav.write('RIFF', 0, 'latin1');
  wav.writeUInt32LE(header - 8 + samples, 4);
  wav.write('WAVEfmt ', 8, 'latin1');
  wav.writeUInt32LE(16, 16); // size of the format
  wav.writeUInt16LE(1, 20); // PCM
  wav.writeUInt16LE(1, 22); // one channel
  wav.writeUInt32LE(sampleRate, 24);
  wav.writeUInt32LE(sampleRate, 28); // bytes a second
  wav.writeUInt16LE(1, 32); // bytes a sample
  wav.writeUInt16LE(8, 34); // bits a sample
  wav.write('data', 36, 'latin1');
  wav.writeUInt32LE(samples, 40);
  for (let i = 0; i < samples; i += 1)
    wav[header + i] = 128 + Math.round(40 * Math.sin((2 * Math.PI * 440 * i) / sampleRate));
  return wav;
}

/** The answer to a transcription or translation, whatever was said. */
export const transcription = {
  text: 'This is demo-echo, which hears nothing.',
  usage: { type: 'duration', seconds: 1 },
} as const;

/** The answer to a moderation request: the demo flags nothing. */
export function moderations({ input }: { readonly input?: unknown }): object {
  const inputs = Array.isArray(input) ? input : [input];
  const result = { flagged: false, categories: {}, category_scores: {}, category_applied_input_types: {} };
  return { id: `modr-${randomUUID()}`, model: demoModel.id, results: inputs.map(() => result) };
}

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
