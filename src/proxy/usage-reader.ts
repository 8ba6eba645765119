/** What an upstream says a call has used. */
export interface ReportedUsage {
  /** Cached ones included. */
  readonly inputTokens: number;
  /** Those of the input that the provider had in its cache. */
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
}

const key = Buffer.from('"usage"');
/** What may be kept while a usage object is not complete. Bytes. */
const keepLimit = 16 * 1024;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const quote = 0x22;
const backslash = 0x5c;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** The index after the object that starts at `start`; -1 when it is not complete. */
function endOfObject(bytes: Buffer, start: number): number {
  let depth = 0;
  let inString = false;
  for (let i = start; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (inString) {
      if (byte === backslash) i += 1;
      else if (byte === quote) inString = false;
    } else if (byte === quote) inString = true;
    else if (byte === openBrace) depth += 1;
    else if (byte === closeBrace && --depth === 0) return i + 1;
  }
  return -1;
}

function count(...values: unknown[]): number {
  const found = values.find((value) => typeof value === 'number' && value >= 0);
  return typeof found === 'number' ? found : 0;
}

function cachedIn(details: unknown): number {
  return typeof details === 'object' && details !== null
    ? count((details as Record<string, unknown>).cached_tokens)
    : 0;
}

function toUsage(text: string): ReportedUsage | undefined {
  try {
    const usage = JSON.parse(text) as Record<string, unknown>;
    const inputTokens = count(usage.prompt_tokens, usage.input_tokens);
    return {
      inputTokens,
      cachedInputTokens: Math.min(inputTokens, cachedIn(usage.prompt_tokens_details ?? usage.input_tokens_details)),
      outputTokens: count(usage.completion_tokens, usage.output_tokens),
    };
  } catch {
    return undefined;
  }
}

/**
 * Reads the last `usage` object out of bytes that pass by, JSON or an event stream, however they are cut, without
 * parsing anything else: inside a JSON string the quotes of `"usage"` would be escaped, so the bytes can only be a key.
 * Keeps 16 KiB at most.
 */
export class UsageReader {
  /** The last usage read; `undefined` until there is one. */
  usage: ReportedUsage | undefined;
  #kept: Buffer | null = null;

  read(chunk: Buffer): void {
    const bytes = this.#kept ? Buffer.concat([this.#kept, chunk]) : chunk;
    this.#kept = null;
    let at = bytes.indexOf(key);
    while (at !== -1) {
      const next = this.#readAt(bytes, at);
      if (next === -1) {
        this.#keepFrom(bytes, at);
        return;
      }
      at = bytes.indexOf(key, next);
    }
    // the key itself may be cut: it is enough to look at what follows a quote near the end
    const tail = bytes.indexOf(quote, Math.max(0, bytes.length - key.length + 1));
    if (tail !== -1) this.#keepFrom(bytes, tail);
  }

  /** @returns where to look on; -1 when more bytes are needed */
  #readAt(bytes: Buffer, at: number): number {
    let i = at + key.length;
    while (isSpace(bytes[i])) i += 1;
    if (i < bytes.length && bytes[i] !== 0x3a) return i;
    i += 1;
    while (isSpace(bytes[i])) i += 1;
    if (i >= bytes.length) return -1;
    if (bytes[i] !== openBrace) return i;
    const end = endOfObject(bytes, i);
    if (end !== -1) this.usage = toUsage(bytes.toString('utf8', i, end)) ?? this.usage;
    return end;
  }

  #keepFrom(bytes: Buffer, at: number): void {
    if (bytes.length - at <= keepLimit) this.#kept = Buffer.from(bytes.subarray(at));
  }
}
