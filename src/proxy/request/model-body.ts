import type { ByteRange, FieldRange } from '../../http/operation.ts';
import type { RequestedOutput } from '../../options/options.ts';
import { modelNameTooLong } from './model-name.ts';
import { listedTokens, requestedOutput } from './requested-output.ts';
import { longestValue, shortValue } from './short-value.ts';

/** A span of bytes and what stands there instead; an empty span inserts. */
interface Edit extends ByteRange {
  readonly text: string;
}

/** What the relay reads of a request body. The rest is sent to the upstream unread. */
export interface ModelBody {
  /** Empty once no upstream needs them any more. */
  bytes: Buffer;
  /** The model asked for; `undefined` where the body names none. */
  readonly model: string | undefined;
  readonly stream: boolean;
  /** Whether the caller asked for the usage chunk at the end of a stream. */
  readonly wantsUsage: boolean;
  readonly wantsBase64: boolean;
  /** How much the caller asked for. */
  readonly output: RequestedOutput;
  /** The number of tokens in a prompt that is a list of them; otherwise 0. */
  readonly listedTokens: number;
  /** Where the files of a form stand; `undefined` for JSON. */
  readonly files?: readonly ByteRange[];
  /** How many pictures JSON names beside its text; `undefined` where only its bytes tell. */
  readonly pictures?: number;
  /** Where the model's name stands. */
  readonly modelSpan: ByteRange | undefined;
  /** Writes a model's name as the body's format requires. */
  readonly writeModel: (name: string) => string;
  /** The edits that make a stream end with its usage; empty when it does so already. */
  readonly usageEdits: readonly Edit[];
}

const openBrace = 0x7b;
const closeBrace = 0x7d;

function modelOf(bytes: Buffer, span: ByteRange | undefined): string | undefined {
  if (span && span.end - span.start > longestValue) throw modelNameTooLong();
  const model = shortValue(bytes, span);
  return typeof model === 'string' ? model : undefined;
}

function isEmptyObject(bytes: Buffer, { start }: ByteRange): boolean {
  let i = start + 1;
  while ((bytes[i] as number) <= 0x20) i += 1;
  return bytes[i] === closeBrace;
}

/** The edits that make `stream_options.include_usage` true. */
function usageEdits(bytes: Buffer, options: ByteRange | undefined, usage: ByteRange | undefined): Edit[] {
  if (usage) return [{ ...usage, text: 'true' }];
  if (!options) {
    const start = bytes.indexOf('{') + 1;
    return [{ start, end: start, text: '"stream_options":{"include_usage":true},' }];
  }
  if (shortValue(bytes, options) === null) return [{ ...options, text: '{"include_usage":true}' }];
  // neither null nor an object: the upstream refuses it
  if (bytes[options.start] !== openBrace) return [];
  const start = options.start + 1;
  return [{ start, end: start, text: `"include_usage":true${isEmptyObject(bytes, options) ? '' : ','}` }];
}

/**
 * Reads what routing and metering need from a JSON body, from the bytes that go up. Pure.
 * @param fields where the values of its fields stand, by path
 * @param prompt what is known of the prompt of a text completion
 * @throws GatewayError `invalid_value` for a model's name that is longer than any
 */
export function readModelBody(bytes: Buffer, fields: ReadonlyMap<string, FieldRange>, prompt?: unknown): ModelBody {
  const modelSpan = fields.get('model');
  const usage = fields.get('stream_options.include_usage');
  const model = modelOf(bytes, modelSpan);
  const stream = shortValue(bytes, fields.get('stream')) === true;
  const wantsUsage = shortValue(bytes, usage) === true;
  return {
    bytes,
    model,
    stream,
    wantsUsage,
    wantsBase64: shortValue(bytes, fields.get('encoding_format')) === 'base64',
    output: requestedOutput(bytes, fields, prompt),
    listedTokens: listedTokens(bytes, fields),
    modelSpan,
    writeModel: JSON.stringify,
    usageEdits: stream && !wantsUsage ? usageEdits(bytes, fields.get('stream_options'), usage) : [],
  };
}

/** Shorter bytes are copied; a copy of longer ones would be memory that is not counted. */
const worthPieces = 64 * 1024;

/**
 * The bytes with the edits made and everything else as it was: as one buffer, or, where they are many, in pieces that
 * share their memory. Pure; edits must not overlap.
 */
function splice(bytes: Buffer, edits: readonly Edit[]): Buffer | readonly Buffer[] {
  if (edits.length === 0) return bytes;
  const parts: Buffer[] = [];
  let at = 0;
  for (const { start, end, text } of edits.toSorted((a, b) => a.start - b.start)) {
    parts.push(bytes.subarray(at, start), Buffer.from(text));
    at = end;
  }
  parts.push(bytes.subarray(at));
  return bytes.length > worthPieces ? parts : Buffer.concat(parts);
}

/** The body as it goes up, in pieces where it is long: with the upstream's name for the model, and asking for usage where that is wanted. Pure. */
export function bodyFor(
  body: ModelBody,
  upstreamModel: string | undefined,
  askForUsage: boolean,
): Buffer | readonly Buffer[] {
  const edits = askForUsage ? [...body.usageEdits] : [];
  if (body.modelSpan && upstreamModel !== undefined && upstreamModel !== body.model) {
    edits.push({ ...body.modelSpan, text: body.writeModel(upstreamModel) });
  }
  return splice(body.bytes, edits);
}
