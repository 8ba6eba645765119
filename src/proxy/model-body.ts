import { findValues, type Span, valueAt } from './json-scan.ts';
import { type Edit, splice } from './splice.ts';

/** What the relay reads of a request body. The rest of it goes up unread. */
export interface ModelBody {
  readonly bytes: Buffer;
  /** The model asked for; `undefined` where the body names none. */
  readonly model: string | undefined;
  readonly stream: boolean;
  /** Whether the caller asked for the usage chunk at the end of a stream. */
  readonly wantsUsage: boolean;
  readonly wantsBase64: boolean;
  /** Where the model's name stands. */
  readonly modelSpan: Span | undefined;
  /** A model's name as it is written there. */
  readonly writeModel: (name: string) => string;
  /** What would have to change for a stream to end with its usage; empty where it does so already. */
  readonly usageEdits: readonly Edit[];
}

const readKeys = ['model', 'stream', 'stream_options', 'encoding_format'] as const;

/** The edits that make `stream_options.include_usage` true. */
function usageEdits(bytes: Buffer, options: Span | undefined): Edit[] {
  if (!options) {
    const start = bytes.indexOf('{') + 1;
    return [{ start, end: start, text: '"stream_options":{"include_usage":true},' }];
  }
  const value = valueAt(bytes, options);
  if (value === null) return [{ ...options, text: '{"include_usage":true}' }];
  // neither null nor an object: the upstream's to refuse
  if (typeof value !== 'object' || Array.isArray(value)) return [];
  const { include_usage } = findValues(bytes, ['include_usage'], options.start);
  if (include_usage) return [{ ...include_usage, text: 'true' }];
  const start = options.start + 1;
  return [{ start, end: start, text: `"include_usage":true${Object.keys(value).length > 0 ? ',' : ''}` }];
}

function asksForUsage(bytes: Buffer, options: Span | undefined): boolean {
  if (!options) return false;
  const { include_usage } = findValues(bytes, ['include_usage'], options.start);
  return include_usage !== undefined && valueAt(bytes, include_usage) === true;
}

/**
 * Reads what routing and metering need from a JSON body, from the bytes that go up. Pure.
 * @param longStrings start → end of strings that are known to stand there
 * @throws GatewayError `duplicate_parameter`
 */
export function readModelBody(bytes: Buffer, longStrings?: ReadonlyMap<number, number>): ModelBody {
  const found = findValues(bytes, readKeys, 0, longStrings);
  const model = found.model && valueAt(bytes, found.model);
  const stream = found.stream !== undefined && valueAt(bytes, found.stream) === true;
  const wantsUsage = asksForUsage(bytes, found.stream_options);
  return {
    bytes,
    model: typeof model === 'string' ? model : undefined,
    stream,
    wantsUsage,
    wantsBase64: found.encoding_format !== undefined && valueAt(bytes, found.encoding_format) === 'base64',
    modelSpan: found.model,
    writeModel: JSON.stringify,
    usageEdits: stream && !wantsUsage ? usageEdits(bytes, found.stream_options) : [],
  };
}

/** The body as it goes up: with the upstream's name for the model, and asking for usage where that is wanted. Pure. */
export function bodyFor(body: ModelBody, upstreamModel: string | undefined, askForUsage: boolean): Buffer {
  const edits = askForUsage ? [...body.usageEdits] : [];
  if (body.modelSpan && upstreamModel !== undefined && upstreamModel !== body.model) {
    edits.push({ ...body.modelSpan, text: body.writeModel(upstreamModel) });
  }
  return splice(body.bytes, edits);
}
