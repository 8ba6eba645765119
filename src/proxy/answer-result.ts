/** What the answers of an endpoint have at least. One without it says nothing, and is no success, whatever its status. */
export interface LeastResult {
  /** A body has one of these members, with something in it. */
  readonly members: readonly string[];
  /** The same in the text of an event: inside a JSON string its quotes would be escaped. */
  readonly inEvent: RegExp;
}

/** An event's JSON can continue in its next `data:` line. */
const gap = String.raw`(?:\s|data:)*`;

/** @param inEvents what an event of its streams may have in place of these. @default nothing else */
export function leastResult(members: readonly string[], inEvents: readonly string[] = []): LeastResult {
  const names = [...members, ...inEvents].join('|');
  const something = String.raw`(?!null|false|\[\s*\]|\{\s*\})\S`;
  return { members, inEvent: new RegExp(`"(?:${names})"${gap}:${gap}${something}`) };
}

/** Whether a value is an object of JSON, and no list. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON from outside, as far as it is read. */
export type Fields = Readonly<Record<string, unknown>>;

/** An object or a list in JSON; `undefined` for anything else. */
export function parsed(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Fields) : undefined;
  } catch {
    return undefined;
  }
}

/** Some providers have their result one level deeper. */
const wrappers = ['data', 'output'] as const;

/** Whether a member has something in it. A text may be empty: nobody speaks in a recording. */
function isFilled(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return false;
  if (Array.isArray(value)) return value.length > 0;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}

/** Whether a body, parsed, has a result, or is a list of some, as llama.cpp answers without `/v1`. */
export function hasLeast(body: unknown, { members }: Pick<LeastResult, 'members'>): boolean {
  if (Array.isArray(body)) return body.some((item) => isObject(item) && hasLeast(item, { members }));
  if (!isObject(body)) return false;
  if (members.some((name) => isFilled(body[name]))) return true;
  return wrappers.map((name) => body[name]).some((value) => isObject(value) && isFilled(value));
}

/** What is kept of the bytes before, to find what two chunks share. Characters. */
const tailLength = 64;

/** Looks for a result in a stream, however it is split into chunks. */
export class ResultSearch {
  readonly #pattern: RegExp;
  #tail = '';
  hasFound = false;

  constructor({ inEvent }: LeastResult) {
    this.#pattern = inEvent;
  }

  read(chunk: Buffer): void {
    if (this.hasFound) return;
    const text = this.#tail + chunk.toString('latin1');
    this.hasFound = this.#pattern.test(text);
    this.#tail = text.slice(-tailLength);
  }
}
