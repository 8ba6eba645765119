import { createHash } from 'node:crypto';
import { checkModel, DemoError, demoModel } from './chat.ts';

interface EmbeddingRequest {
  readonly model?: unknown;
  readonly input?: unknown;
  readonly dimensions?: unknown;
  readonly encoding_format?: unknown;
}

const defaultDimensions = 64;
const maxDimensions = 4_096;

/** A unit vector from the text's SHA-256: the same text gives the same vector. It has no other meaning. */
function vectorOf(text: string, dimensions: number): Float32Array {
  const values: number[] = [];
  for (let block = 0; values.length < dimensions; block += 1) {
    const digest = createHash('sha256').update(`${block}\n${text}`).digest();
    for (let at = 0; at < digest.length; at += 4) values.push(digest.readInt32LE(at) / 2 ** 31);
  }
  const vector = values.slice(0, dimensions);
  const length = Math.hypot(...vector) || 1;
  return Float32Array.from(vector, (value) => value / length);
}

function encode(vector: Float32Array, format: unknown): number[] | string {
  return format === 'base64' ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector);
}

/** A string, a list of strings, a list of tokens, or a list of lists of tokens. */
function inputsOf(input: unknown): string[] {
  if (typeof input === 'string') return [input];
  if (!Array.isArray(input) || input.length === 0) {
    throw new DemoError('invalid_value', "'input' must be a string or a list that is not empty", 'input');
  }
  if (input.every((item) => typeof item === 'number')) return [input.join(' ')];
  return input.map((item) => (Array.isArray(item) ? item.join(' ') : String(item)));
}

/**
 * The answer to an embeddings request.
 * @throws DemoError for another model, no input, or dimensions out of range
 */
export function embeddings(request: EmbeddingRequest): object {
  checkModel(request.model);
  const dimensions = Number(request.dimensions ?? defaultDimensions);
  if (!Number.isInteger(dimensions) || dimensions < 1 || dimensions > maxDimensions) {
    throw new DemoError('invalid_value', `'dimensions' must be from 1 to ${maxDimensions}`, 'dimensions');
  }
  const inputs = inputsOf(request.input);
  const tokens = inputs.reduce((sum, text) => sum + text.split(/\s+/).filter(Boolean).length, 0);
  return {
    object: 'list',
    model: demoModel.id,
    data: inputs.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: encode(vectorOf(text, dimensions), request.encoding_format),
    })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}
