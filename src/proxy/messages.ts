import { errorIn, type GatewayError } from '../errors.ts';
import { JsonMembers } from '../http/json/search.ts';
import type { ApiRequest, ByteRange } from '../http/operation.ts';
import type { RequestedOutput } from '../options/options.ts';
import {
  type AnswerReader,
  createBodyReader,
  detailIn,
  type Fields,
  isObject,
  parsed,
  type ReportedUsage,
  usageCount,
} from './answer-body.ts';
import { dataOf, EventTexts } from './event-framer.ts';
import { type ModelBody, readModelBody } from './model-body.ts';
import { eventsOf, LastEvent, type StreamEnd } from './stream-end.ts';

const cacheMark = Buffer.from('"cache_control"');
const hourMark = Buffer.from('"1h"');

/** What a request, or a batch of them, may have the provider write into its cache, as {@link RequestedOutput} says it. */
export function cacheWritesIn(rawBody: Buffer): Pick<RequestedOutput, 'writesCache'> {
  if (!rawBody.includes(cacheMark)) return {};
  return { writesCache: rawBody.includes(hourMark) ? '1h' : '5m' };
}

/** Reads what routing and metering need from a request of Anthropic's Messages API. @throws GatewayError as {@link readModelBody} does */
export function readMessageBody(request: ApiRequest, path: string): ModelBody {
  const { rawBody, fields } = request;
  const body = readModelBody(request, path);
  const tools = fields.get('tools');
  const isVersioned = tools !== undefined && versionedTool.test(rawBody.toString('latin1', tools.start, tools.end));
  return {
    ...body,
    mayUseContainer: isVersioned || fields.has('container'),
    files: attachmentsIn(rawBody),
    output: { ...body.output, ...cacheWritesIn(rawBody) },
  };
}

/** The type of a tool that comes from the provider: some of these run in a container. */
const versionedTool = /"[a-z_]+_20\d{6}"/;

const quote = 0x22;
const sourceMark = Buffer.from('"source"');
/** The most sources that are searched for; no provider accepts as many in one request. */
const mostSources = 10_000;
/** What a source has before and behind its data is short. Characters. */
const longestGap = 256;
const untilData = /^\s*:\s*\{[^{}]*?"data"\s*:\s*"/;
const elsewhere = /^\s*:\s*\{[^{}]*?"(?:url|file_id)"\s*:/;
const isBase64 = /"type"\s*:\s*"base64"/;

/** The pictures and documents of a request, up to a bound: where their bytes stand, and, of those that are elsewhere, where they are named. */
export function attachmentsIn(bytes: Buffer): ByteRange[] {
  const found: ByteRange[] = [];
  let at = bytes.indexOf(sourceMark);
  for (let marks = 0; at !== -1 && marks < mostSources; marks += 1) {
    const source = sourceAt(bytes, at + sourceMark.length);
    if (source) found.push(source);
    at = bytes.indexOf(sourceMark, source?.end ?? at + sourceMark.length);
  }
  return found;
}

/** The data in base64 of the source whose key ends here; an empty range for what is elsewhere; `undefined` for a text, and for no source. */
function sourceAt(bytes: Buffer, start: number): ByteRange | undefined {
  const head = bytes.toString('latin1', start, start + longestGap);
  const before = untilData.exec(head)?.[0];
  if (before === undefined) return elsewhere.test(head) ? { start, end: start } : undefined;
  const dataStart = start + before.length;
  const dataEnd = bytes.indexOf(quote, dataStart);
  const [behind] = bytes.toString('latin1', dataEnd + 1, dataEnd + longestGap).split('}', 1);
  return isBase64.test(before) || isBase64.test(behind ?? '') ? { start: dataStart, end: dataEnd } : undefined;
}

/** The most that is held of a member of an answer. Bytes. */
const memberLimit = 16 * 1024;
/** The event with which a message begins, those towards its end, and those with which a tool of the provider is called. */
const readEvents = /"message_(?:start|delta)"|"server_tool_use"/;
/** An event names its type so early. Characters. */
const typeLength = 256;

const countNames = [
  'input_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'output_tokens',
] as const satisfies readonly string[];

/** The tokens of a usage; `forHour` are those of what was written into the cache that are kept for an hour. */
type Counts = Partial<Record<(typeof countNames)[number] | 'forHour', number>>;

function isCompaction(iteration: unknown): iteration is Fields {
  return isObject(iteration) && iteration.type === 'compaction';
}

/** Counts must be whole numbers, 0 to 100 million; otherwise the whole object is ignored. */
function countsIn(usage: Fields): Counts | undefined {
  const counts = countNames.flatMap((name) => {
    const count = usageCount(usage, name);
    return count === undefined ? [] : [[name, count] as const];
  });
  if (counts.some(([, count]) => Number.isNaN(count))) return undefined;
  const forHour = detailIn(usage.cache_creation, 'ephemeral_1h_input_tokens');
  return { ...Object.fromEntries(counts), ...(forHour > 0 && { forHour }) };
}

/**
 * Reads the usage of a message of Anthropic's API, and whether it has ended. In a stream, the first event has the input, and a later one the output: each
 * count stands for those before it, as official clients read them. What a tool is given is in the answer, too, and may have a `usage` of its own.
 */
export class MessageReader implements AnswerReader {
  isEnded = false;
  /** The id of the container that tools of the provider have run in. */
  container: unknown;
  readonly #counts: Counts = {};
  /** Summaries that the provider made of the conversation before it went on; the counts of a message are without those of these. */
  #compactions: readonly Counts[] = [];
  /** As the usage counts them, and as the events show them before it comes. */
  #webSearches: number | undefined;
  #thinking = 0;
  #shownSearches = 0;
  readonly #reader = createBodyReader(
    () => this.#memberReader(),
    () => this.#eventReader(),
  );

  read(chunk: Buffer): void {
    this.#reader.read(chunk);
  }

  /** Its input is counted without what the provider's cache has to do with; here, all of it is input. */
  get reported(): ReportedUsage | undefined {
    if (this.#counts.input_tokens === undefined || this.#counts.output_tokens === undefined) return undefined;
    const all = [this.#counts, ...this.#compactions];
    const sum = (name: keyof Counts) => all.reduce((total, counts) => total + (counts[name] ?? 0), 0);
    const outputTokens = sum('output_tokens');
    const written = sum('cache_creation_input_tokens');
    const cachedInputTokens = sum('cache_read_input_tokens');
    const cacheWriteHourTokens = Math.min(written, sum('forHour'));
    const counted = this.#webSearches ?? 0;
    const isCounted = this.isEnded && this.#webSearches !== undefined;
    const webSearchCalls = isCounted ? counted : Math.max(counted, this.#shownSearches);
    return {
      inputTokens: sum('input_tokens') + written + cachedInputTokens,
      cachedInputTokens,
      outputTokens,
      ...(this.#thinking > 0 && { reasoningTokens: Math.min(outputTokens, this.#thinking) }),
      ...(written > 0 && { cacheWriteTokens: written }),
      ...(cacheWriteHourTokens > 0 && { cacheWriteHourTokens }),
      ...(webSearchCalls > 0 && { webSearchCalls }),
    };
  }

  addUsage(usage: unknown): void {
    if (!isObject(usage)) return;
    const counts = countsIn(usage);
    if (!counts) return;
    // the events towards the end of a stream do not say again what is kept for an hour
    Object.assign(this.#counts, counts);
    const iterations: readonly unknown[] = Array.isArray(usage.iterations) ? usage.iterations : [];
    this.#compactions = iterations.filter(isCompaction).flatMap((iteration) => countsIn(iteration) ?? []);
    this.#thinking = Math.max(this.#thinking, detailIn(usage.output_tokens_details, 'thinking_tokens'));
    if (isObject(usage.server_tool_use)) this.#webSearches = detailIn(usage.server_tool_use, 'web_search_requests');
  }

  #addReason(reason: unknown): void {
    if (typeof reason === 'string' && reason !== '') this.isEnded = true;
  }

  #addContainer(container: unknown): void {
    if (isObject(container)) this.container = container.id;
  }

  #memberReader() {
    return new JsonMembers({
      names: ['usage', 'stop_reason', 'container'],
      keepLimit: memberLimit,
      onMember: (name, value) => {
        if (name === 'usage') this.addUsage(value);
        else if (name === 'container') this.#addContainer(value);
        else this.#addReason(value);
      },
    });
  }

  #eventReader() {
    const texts = new EventTexts();
    return {
      read: (chunk: Buffer) => {
        for (const event of texts.read(chunk)) if (readEvents.test(event.slice(0, typeLength))) this.#addEvent(event);
      },
    };
  }

  #addEvent(event: string): void {
    const { type, message, content_block: block, usage, delta } = parsed(dataOf(event)) ?? {};
    if (type === 'message_start' && isObject(message)) {
      this.addUsage(message.usage);
      this.#addContainer(message.container);
    }
    if (isObject(block) && block.type === 'server_tool_use' && block.name === 'web_search') this.#shownSearches += 1;
    if (type !== 'message_delta') return;
    this.addUsage(usage);
    if (!isObject(delta)) return;
    this.#addReason(delta.stop_reason);
    this.#addContainer(delta.container);
  }
}

const lastEvents = eventsOf('error|message_stop');

/** The end of a stream of Anthropic's Messages API: one without `message_stop` is not whole. */
export class MessageEnd implements StreamEnd {
  readonly isWhole: boolean;
  readonly #requestId: string;
  readonly #last = new LastEvent(lastEvents);

  /** @param isWhole whether a stream that has ended without its last event is whole. @default false */
  constructor(requestId: string, isWhole = false) {
    this.#requestId = requestId;
    this.isWhole = isWhole;
  }

  get isDone(): boolean {
    return this.#last.isDone;
  }

  read(chunk: Buffer): void {
    this.#last.read(chunk);
  }

  errorEvent(error: GatewayError): string {
    const { status } = error;
    const body = errorIn('anthropic', error.toBody(), { status, requestId: this.#requestId });
    return `event: error\ndata: ${JSON.stringify(body)}\n\n`;
  }
}
