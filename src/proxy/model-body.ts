import { GatewayError, refuse } from '../errors.ts';
import type { ApiRequest, ByteRange } from '../http/operation.ts';
import type { RequestedOutput } from '../options/options.ts';

/** A span of bytes and what stands there instead; an empty span inserts. */
export interface Edit extends ByteRange {
  readonly text: string;
}

/** What the relay reads of a request body. The rest is sent to the upstream unread. Holds none of its bytes: it lives as long as the answer. */
export interface ModelBody {
  /** The model asked for; `undefined` where the body names none. */
  readonly model: string | undefined;
  readonly stream: boolean;
  readonly wantsBase64: boolean;
  /** How much the caller asked for. */
  readonly output: RequestedOutput;
  /** How many choices or images the answer has, if its upstream makes all that are asked for: of `best_of`, only the best come. */
  readonly choices: number;
  /** The number of tokens in a prompt that is a list of them; otherwise 0. */
  readonly listedTokens: number;
  /** Where files and pictures stand that are no text; `undefined` where only its bytes tell. */
  readonly files?: readonly ByteRange[];
  /** How many pictures JSON names beside its text; `undefined` where only its bytes tell. */
  readonly pictures?: number;
  /** Whether tools of the provider may run for it in a container, which the answer then names. @default false */
  readonly mayUseContainer?: boolean;
  /** Where the model's name stands. */
  readonly modelSpan: ByteRange | undefined;
  /** Writes a model's name as the body's format requires. */
  readonly writeModel: (name: string) => string;
  /** The edits that make a stream end with its usage; empty when it does so already. */
  readonly usageEdits: readonly Edit[];
}

/**
 * Reads what routing and metering need from a JSON body: places and the model's name from the bytes that go up, all else from what was parsed of
 * them.
 * @param path of the endpoint, which decides what limits its output. @default nothing does
 * @param modelField the path of the model's name in the body: `parameters.model`
 * @throws GatewayError `invalid_value` for a model's name that is longer than any
 */
export function readModelBody(
  { rawBody: bytes, fields, body }: Pick<ApiRequest, 'rawBody' | 'fields' | 'body'>,
  path?: string,
  modelField = 'model',
): ModelBody {
  const given = (body ?? {}) as Readonly<Record<string, unknown>>;
  const modelSpan = fields.get(modelField);
  if (modelSpan && modelSpan.end - modelSpan.start > longestValue) throw modelNameTooLong();
  const model = shortValue(bytes, modelSpan);
  const prompt = fields.get('prompt') ?? fields.get('input');
  const stream = given.stream === true;
  const options = given.stream_options as { readonly include_usage?: unknown } | null | undefined;
  return {
    model: typeof model === 'string' ? model : undefined,
    stream,
    wantsBase64: given.encoding_format === 'base64',
    output: requestedOutput(given, path),
    choices: requestedChoices(given, ['n']).choices,
    listedTokens: prompt && bytes[prompt.start] === openBracket ? prompt.numbers : 0,
    modelSpan,
    writeModel: JSON.stringify,
    usageEdits: stream && options?.include_usage !== true ? usageEdits(bytes, fields) : [],
  };
}

type Form = NonNullable<ApiRequest['form']>;

/** Reads what routing needs from the fields of a form that was found valid. Files in it are not looked at. */
export function readMultipartBody({ bytes, parts }: Form): ModelBody {
  const textOf = (name: string): string | undefined => {
    const part = parts.find((candidate) => candidate.name === name);
    return part && bytes.toString('utf8', part.start, part.end);
  };
  const model = parts.find(({ name }) => name === 'model');
  // the form was found valid: it has few digits
  const choices = Math.max(1, countIn('n', Number(textOf('n') ?? 1)));
  const { start = 0, end = 0, lengthAt } = model ?? {};
  // its Content-Length goes with it, and what stands between the two
  const between = lengthAt === undefined ? undefined : bytes.toString('latin1', lengthAt, start).replace(/^\d+/, '');
  return {
    model: textOf('model'),
    stream: textOf('stream') === 'true',
    wantsBase64: false,
    output: { choices, choicesField: 'n', maxTokens: undefined },
    choices,
    listedTokens: 0,
    files: parts.filter(({ filename }) => filename !== undefined && filename !== ''),
    modelSpan: model && { start: lengthAt ?? start, end },
    writeModel: modelWriter(between),
    usageEdits: [],
  };
}

/**
 * Writes another model's name in place of the one in a form. Made here, away from the form: a function made beside others that use
 * the form's bytes would keep these too.
 * @param between what stands between the digits of its Content-Length and the name; `undefined` where it has none
 */
function modelWriter(between: string | undefined): ModelBody['writeModel'] {
  return (name) => (between === undefined ? name : `${Buffer.byteLength(name)}${between}${name}`);
}

/**
 * The body as it goes up, in pieces where it is long: with the upstream's name for the model, and asking for usage where that is wanted.
 * @param others further edits. @default none
 */
export function bodyFor(
  bytes: Buffer,
  body: ModelBody,
  upstreamModel: string | undefined,
  askForUsage: boolean,
  others: readonly Edit[] = [],
): Buffer | readonly Buffer[] {
  const edits = askForUsage ? [...others, ...body.usageEdits] : [...others];
  if (body.modelSpan && upstreamModel !== undefined && upstreamModel !== body.model) {
    edits.push({ ...body.modelSpan, text: body.writeModel(upstreamModel) });
  }
  return splice(bytes, edits);
}

/** Shorter bytes are copied; a copy of longer ones would be memory that is not counted. */
const worthPieces = 64 * 1024;

/**
 * The bytes with the edits made and everything else as it was: as one buffer, or, where they are many, in pieces that
 * share their memory. Edits must not overlap.
 */
export function splice(bytes: Buffer, edits: readonly Edit[]): Buffer | readonly Buffer[] {
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

const openBracket = 0x5b;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** The longest value that the relay acts on, escapes included. Bytes. */
export const longestValue = 4_096;

/** The value of a field that is short and neither an object nor a list; otherwise `undefined`. */
export function shortValue(bytes: Buffer, span: ByteRange | undefined): unknown {
  if (!span || span.end - span.start > longestValue) return undefined;
  if (bytes[span.start] === openBrace || bytes[span.start] === openBracket) return undefined;
  return JSON.parse(bytes.toString('utf8', span.start, span.end));
}

/** The longest name of a model that is stored and matched. Characters, as openapi.yaml says it. */
const nameLimit = 256;

/**
 * Checks the length of a model's name as it stands in the body: the value that is validated against openapi.yaml has `…` in
 * place of long strings.
 * @throws GatewayError `invalid_value`
 */
export function checkModelName(model: string | undefined): void {
  if (model === undefined || model.length <= nameLimit) return;
  if (model.length <= 2 * nameLimit && [...model].length <= nameLimit) return;
  throw modelNameTooLong();
}

/** The same error, for code that knows the length without reading the name. */
function modelNameTooLong(): GatewayError {
  const message = `model: must be a string of 1 to ${nameLimit} characters`;
  return new GatewayError('invalid_value', message, { param: 'model' });
}

/** Chat models that search the web for each answer, such as `gpt-4o-search-preview`. */
const searchingModel = /-search-(?:preview|api)/;

/** More than any request needs: a bound that keeps sums and products exact enough to compare. */
const countLimit = 1_000_000_000;

/**
 * The number that a field asks for: the next whole one, and no more than any request needs; 0 where it asks for none, or for a negative number.
 * @throws GatewayError `invalid_type` for what is no number: an upstream may read one in it
 */
export function countIn(name: string, value: unknown): number {
  if (value === undefined || value === null) return 0;
  if (typeof value !== 'number') refuse('invalid_type', name, 'must be a whole number');
  return Math.min(countLimit, Math.max(0, Math.ceil(value)));
}

/**
 * Of fields that say the same the one with the largest number counts: which of them an upstream follows is its own affair.
 * @returns its name, that of the first where none has one; and 0 where none does
 */
function largest(body: Readonly<Record<string, unknown>>, names: readonly string[]) {
  let most = { name: names[0], count: 0 };
  for (const name of names) {
    const count = countIn(name, body[name]);
    if (count > most.count) most = { name, count };
  }
  return most;
}

/** How many choices the body asks for by one of these fields, and which of them says so. */
function requestedChoices(body: Readonly<Record<string, unknown>>, names: readonly string[]) {
  const { name, count } = largest(body, names);
  const { prompt } = body;
  // of a text completion, a list of texts, or of lists of tokens, is answered one by one
  const areMany = Array.isArray(prompt) && (typeof prompt[0] === 'string' || Array.isArray(prompt[0]));
  return {
    choices: Math.min(countLimit, Math.max(1, count) * (areMany ? prompt.length : 1)),
    choicesField: count > 1 ? name : areMany ? 'prompt' : undefined,
  };
}

/** Of an endpoint that the gateway does not know. */
export const limitsOfAny: readonly string[] = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'];
export const anyPath = '*';

/** The fields that limit the output, by endpoint: first the one that a request should have. An upstream passes over the one of another endpoint. */
const limitFields: ReadonlyMap<string | undefined, readonly string[]> = new Map([
  ['/chat/completions', ['max_completion_tokens', 'max_tokens']],
  ['/completions', ['max_tokens']],
  ['/responses', ['max_output_tokens']],
  ['/messages', ['max_tokens']],
  [anyPath, limitsOfAny],
]);

/**
 * Reads what a JSON body asks for.
 * @throws GatewayError `invalid_type`
 */
function requestedOutput(body: Readonly<Record<string, unknown>>, path: string | undefined): RequestedOutput {
  const limit = largest(body, limitFields.get(path) ?? []);
  const { model, web_search_options: search } = body;
  const searches = (typeof search === 'object' && search !== null) || searchingModel.test(String(model));
  return {
    ...requestedChoices(body, ['n', 'best_of']),
    maxTokens: limit.count > 0 ? limit.count : undefined,
    limitField: limit.name,
    ...(searches && { tools: { webSearchCalls: 1 } }),
  };
}

/** The edits that make `stream_options.include_usage` true. */
function usageEdits(bytes: Buffer, fields: ApiRequest['fields']): Edit[] {
  const options = fields.get('stream_options');
  const usage = fields.get('stream_options.include_usage');
  if (usage) return [{ ...usage, text: 'true' }];
  if (!options) {
    const start = bytes.indexOf('{') + 1;
    return [{ start, end: start, text: '"stream_options":{"include_usage":true},' }];
  }
  if (shortValue(bytes, options) === null) return [{ ...options, text: '{"include_usage":true}' }];
  // neither null nor an object: the upstream refuses it
  if (bytes[options.start] !== openBrace) return [];
  const start = options.start + 1;
  let first = start;
  while ((bytes[first] as number) <= 0x20) first += 1;
  return [{ start, end: start, text: `"include_usage":true${bytes[first] === closeBrace ? '' : ','}` }];
}

/** English text has about four bytes per token, and a prompt is JSON, which is not all text. */
export const promptBytesPerToken = 4;
/** The estimate for a picture or file in a prompt; most providers count 85 to 1,500 tokens for a picture. */
const tokensPerPicture = 1_500;
const picture = Buffer.from('"image_url"');
/** Part of every data URL of a picture or file. A search for fewer than seven bytes can take many times as long. */
const base64Mark = Buffer.from(';base64,');
/** What precedes it where an upstream reads a data URL: anywhere else it is plain text. */
const headOfDataUrl = /"(?:url|image_url|file_data)"\s{0,16}:\s{0,16}("data:[^"]{0,128})$/;
const longestHead = 256;
/** The most of each that are searched for; no provider accepts as many in one request. */
const mostMarks = 10_000;
const quote = 0x22;

/**
 * The estimated tokens of a prompt: its bytes divided by four, or the tokens that it lists as numbers if they are more, plus
 * 1,500 for each picture or file in place of its bytes.
 */
export function estimateInput(
  bytes: Buffer,
  { listedTokens, files, pictures }: Pick<ModelBody, 'listedTokens' | 'files' | 'pictures'>,
): number {
  const attachments = files
    ? { count: files.length, bytes: files.reduce((sum, { start, end }) => sum + end - start, 0) }
    : attachmentsIn(bytes, pictures);
  const text = bytes.length - attachments.bytes;
  return Math.max(listedTokens, Math.ceil(text / promptBytesPerToken)) + attachments.count * tokensPerPicture;
}

/** The pictures and files of a JSON text, up to a bound: data URLs, and pictures given by their address. @param pictures how many, if that is known */
function attachmentsIn(bytes: Buffer, pictures: number | undefined): { count: number; bytes: number } {
  let count = 0;
  let sum = 0;
  let at = bytes.indexOf(base64Mark);
  for (let marks = 0; at !== -1 && marks < mostMarks; marks += 1) {
    const head = headOfDataUrl.exec(bytes.toString('latin1', Math.max(0, at - longestHead), at))?.[1];
    const end = head === undefined ? -1 : bytes.indexOf(quote, at);
    if (head !== undefined && end !== -1) {
      count += 1;
      sum += end + 1 - (at - head.length);
    }
    at = bytes.indexOf(base64Mark, Math.max(end, at + base64Mark.length));
  }
  if (pictures !== undefined) return { count: Math.max(count, pictures), bytes: sum };
  let words = 0;
  at = bytes.indexOf(picture);
  for (; at !== -1 && words < mostMarks; at = bytes.indexOf(picture, at + picture.length)) words += 1;
  // a part with a picture has this word twice: as its type and as a key
  return { count: Math.max(count, Math.ceil(words / 2)), bytes: sum };
}

const backslash = 0x5c;
const letterU = 0x75;

/** Which half of a surrogate pair an escape is, if any: `\ud800` to `\udbff` is the first, `\udc00` to `\udfff` the second. */
function surrogateAt(bytes: Buffer, at: number): 'first' | 'second' | undefined {
  if (bytes[at] !== letterU) return undefined;
  const digits = bytes.toString('latin1', at + 1, at + 3);
  if (/^d[89ab]/i.test(digits)) return 'first';
  return /^d[c-f]/i.test(digits) ? 'second' : undefined;
}

/** The characters (code points) of a JSON string, without decoding it. */
export function charactersIn(bytes: Buffer, { start, end }: ByteRange): number {
  let count = 0;
  let last: ReturnType<typeof surrogateAt>;
  for (let i = start + 1; i < end - 1; i += 1) {
    const byte = bytes[i] as number;
    const surrogate = byte === backslash ? surrogateAt(bytes, i + 1) : undefined;
    const isSecondHalf = surrogate === 'second' && last === 'first';
    const isContinuation = (byte & 0xc0) === 0x80;
    if (!isSecondHalf && !isContinuation) count += 1;
    if (byte === backslash) i += bytes[i + 1] === letterU ? 5 : 1;
    last = isSecondHalf ? undefined : surrogate;
  }
  return count;
}

/** What is assumed of a recording whose format does not say it: 64 kbit/s. */
const bytesPerSecond = 8_000;
const wavHeader = 44;
/** 8 channels of 32 bits at 192 kHz. */
const mostPerSecond = 8 * 4 * 192_000;

/** The bytes of a second of a WAV file by its header; `undefined` for any other. */
function wavRate(file: Buffer): number | undefined {
  const isWav = file.length > wavHeader && /^RIFF....WAVEfmt $/s.test(file.toString('latin1', 0, 16));
  if (!isWav) return undefined;
  const [format, channels, blockAlign, bits] = [20, 22, 32, 34].map((at) => file.readUInt16LE(at)) as [
    number,
    number,
    number,
    number,
  ];
  // only of samples that are not compressed does the header say what a second takes, and only where it fits itself
  const isPlain = (format === 1 || format === 3) && blockAlign === (channels * bits) / 8;
  const rate = file.readUInt32LE(24) * blockAlign;
  return isPlain && rate > 0 && rate <= mostPerSecond ? rate : undefined;
}

/** The estimated length of a recording. Seconds. */
export function estimateSeconds(file: Buffer): number {
  return Math.ceil(file.length / (wavRate(file) ?? bytesPerSecond));
}
