import { errorIn, type GatewayError } from '../errors.ts';
import { JsonMembers } from '../http/json/search.ts';
import type { ApiRequest, ByteRange } from '../http/operation.ts';
import {
  type AnswerReader,
  createBodyReader,
  detailIn,
  isObject,
  parsed,
  type ReportedUsage,
  usageCount,
} from './answer-body.ts';
import { dataOf, EventTexts } from './event-framer.ts';
import { type ModelBody, readModelBody } from './model-body.ts';
import { eventsOf, LastEvent, type StreamEnd } from './stream-end.ts';

const cacheMark = Buffer.from('"cache_control"');

/** Reads what routing and metering need from a request of Anthropic's Messages API. @throws GatewayError as {@link readModelBody} does */
export function readMessageBody(request: ApiRequest, path: string): ModelBody {
  const { rawBody } = request;
  const body = readModelBody(request, path);
  const writesCache = rawBody.includes(cacheMark);
  return {
    ...body,
    files: attachmentsIn(rawBody),
    output: { ...body.output, ...(writesCache && { writesCache }) },
  };
}

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

/**
 * Reads the usage of a message of Anthropic's API, and whether it has ended. In a stream, the first event has the input, and a later one the output: each
 * count stands for those before it, as official clients read them. What a tool is given is in the answer, too, and may have a `usage` of its own.
 */
export class MessageReader implements AnswerReader {
  isEnded = false;
  readonly #counts: Partial<Record<(typeof countNames)[number], number>> = {};
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
    const { input_tokens: uncached, output_tokens: outputTokens } = this.#counts;
    if (uncached === undefined || outputTokens === undefined) return undefined;
    const { cache_creation_input_tokens: written = 0, cache_read_input_tokens: cachedInputTokens = 0 } = this.#counts;
    const counted = this.#webSearches ?? 0;
    const isCounted = this.isEnded && this.#webSearches !== undefined;
    const webSearchCalls = isCounted ? counted : Math.max(counted, this.#shownSearches);
    return {
      inputTokens: uncached + written + cachedInputTokens,
      cachedInputTokens,
      outputTokens,
      ...(this.#thinking > 0 && { reasoningTokens: Math.min(outputTokens, this.#thinking) }),
      ...(written > 0 && { cacheWriteTokens: written }),
      ...(webSearchCalls > 0 && { webSearchCalls }),
    };
  }

  /** Counts must be whole numbers, 0 to 100 million; otherwise the whole object is ignored. */
  addUsage(usage: unknown): void {
    if (!isObject(usage)) return;
    const counts = countNames.flatMap((name) => {
      const count = usageCount(usage, name);
      return count === undefined ? [] : [[name, count] as const];
    });
    if (counts.some(([, count]) => Number.isNaN(count))) return;
    Object.assign(this.#counts, Object.fromEntries(counts));
    this.#thinking = Math.max(this.#thinking, detailIn(usage.output_tokens_details, 'thinking_tokens'));
    if (isObject(usage.server_tool_use)) this.#webSearches = detailIn(usage.server_tool_use, 'web_search_requests');
  }

  #addReason(reason: unknown): void {
    if (typeof reason === 'string' && reason !== '') this.isEnded = true;
  }

  #memberReader() {
    return new JsonMembers({
      names: ['usage', 'stop_reason'],
      keepLimit: memberLimit,
      onMember: (name, value) => {
        if (name === 'usage') this.addUsage(value);
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
    if (type === 'message_start' && isObject(message)) this.addUsage(message.usage);
    if (isObject(block) && block.type === 'server_tool_use' && block.name === 'web_search') this.#shownSearches += 1;
    if (type !== 'message_delta') return;
    this.addUsage(usage);
    if (isObject(delta)) this.#addReason(delta.stop_reason);
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
