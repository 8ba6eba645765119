import type { Dialect } from '../errors.ts';
import { JsonMembers } from '../http/json/search.ts';
import {
  type AnswerReader,
  createBodyReader,
  type Fields,
  isObject,
  parsed,
  type ReportedUsage,
  usageCount,
  usageFrom,
} from './answer-body.ts';
import { dataOf, EventTexts } from './event-framer.ts';
import { MessageReader } from './messages.ts';

/** The most that is held of a member of an answer. Bytes. */
const keepLimit = 64 * 1024;
const doneEvent = /^data: ?\[DONE\]/m;
/** More than any call has. */
const mostUnits = 1_000_000;
const numberText = /^\d{1,7}(?:\.\d{1,9})?$/;

/** The value that a JSON pointer leads to. @param names that it goes through */
function valueAt(value: unknown, names: readonly string[]): unknown {
  return names.reduce<unknown>((at, name) => {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return undefined;
    return (at as Fields)[name];
  }, value);
}

/** A number of units, to a thousandth; some providers write it as a text. */
function unitsFrom(value: unknown): number | undefined {
  const count = typeof value === 'string' && numberText.test(value) ? Number(value) : value;
  if (typeof count !== 'number' || !(count >= 0 && count <= mostUnits)) return undefined;
  return Math.round(count * 1_000) / 1_000;
}

/** A usage of OpenAI's API, or one that has a total alone, as some providers of reranks and vectors do: then all of it is input. */
function tokensIn(usage: unknown): ReportedUsage | undefined {
  const ofBoth = usageFrom(usage);
  if (ofBoth || !isObject(usage)) return ofBoth;
  const inputTokens = usageCount(usage, 'prompt_tokens', 'input_tokens', 'total_tokens');
  return inputTokens === undefined || Number.isNaN(inputTokens)
    ? undefined
    : { inputTokens, cachedInputTokens: 0, outputTokens: 0 };
}

/** The tokens of an answer of OpenAI's API, or of Cohere's: what it has read, or else what it charges for. */
function tokensOf({ usage, meta }: Fields): ReportedUsage | undefined {
  const { tokens, billed_units: billed } = isObject(meta) ? meta : {};
  return tokensIn(usage) ?? tokensIn(tokens) ?? tokensIn(billed);
}

const sizeOf = ({ inputTokens, outputTokens }: ReportedUsage): number => inputTokens + outputTokens;

/**
 * Reads what answers of rows such as `/v1/rerank` report: tokens in a shape that is known, and units. What is deeper in an answer under the same names,
 * such as a document that comes back, counts for nothing. Of several reports in a stream the largest counts.
 */
export class AmountReader implements AnswerReader {
  units: number | undefined;
  #isEnded = false;
  #tokens: ReportedUsage | undefined;
  /** Reads the tokens of Anthropic's API. */
  readonly #messages: MessageReader | undefined;
  readonly #pointer: readonly string[];
  /** Of the members that are read. */
  readonly #names: readonly string[];
  readonly #reader = createBodyReader(
    () => this.#memberReader(),
    () => this.#eventReader(),
  );

  /** @param pointer the names that lead to the units; none where answers have none */
  constructor(speaks: Dialect, pointer: readonly string[]) {
    this.#pointer = pointer;
    this.#names = ['usage', 'meta', ...pointer.slice(0, 1)];
    if (speaks === 'anthropic') this.#messages = new MessageReader();
  }

  read(chunk: Buffer): void {
    this.#messages?.read(chunk);
    this.#reader.read(chunk);
  }

  get isEnded(): boolean {
    return this.#isEnded || this.#messages?.isEnded === true;
  }

  get reported(): ReportedUsage | undefined {
    return this.#messages ? this.#messages.reported : this.#tokens;
  }

  #add(answer: Fields): void {
    const tokens = tokensOf(answer);
    if (tokens && (!this.#tokens || sizeOf(tokens) >= sizeOf(this.#tokens))) this.#tokens = tokens;
    const units = unitsFrom(valueAt(answer, this.#pointer));
    if (units !== undefined) this.units = Math.max(this.units ?? 0, units);
  }

  #memberReader() {
    const members: Record<string, unknown> = {};
    const reader = new JsonMembers({
      names: this.#names,
      keepLimit,
      onMember(name, value) {
        members[name] = value;
      },
    });
    return {
      read: (chunk: Buffer) => {
        if (reader.isWhole) return;
        reader.read(chunk);
        if (!reader.isWhole) return;
        this.#isEnded = true;
        this.#add(members);
      },
    };
  }

  #eventReader() {
    const texts = new EventTexts();
    return {
      read: (chunk: Buffer) => {
        for (const event of texts.read(chunk)) {
          if (doneEvent.test(event)) this.#isEnded = true;
          else if (this.#names.some((name) => event.includes(name))) this.#add(parsed(dataOf(event)) ?? {});
        }
      },
    };
  }
}
