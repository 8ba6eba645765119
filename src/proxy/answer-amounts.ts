import type { Dialect } from '../errors.ts';
import { JsonMembers, pointerReader } from '../http/json/search.ts';
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
/** The longest event that is read: its result can be in it. Characters. */
const longestEvent = 256 * 1024;
const doneEvent = /^data: ?\[DONE\]/m;
/** More than any call has. */
const mostUnits = 1_000_000;
const numberText = /^\d{1,7}(?:\.\d{1,9})?$/;

/** Parts of a unit that are counted. Less than one counts as one, and never as nothing: a unit can be an hour. */
const partsOfUnit = 1_000_000;

/** A number of units; some providers write it as a text. */
function unitsFrom(value: unknown): number | undefined {
  const count = typeof value === 'string' && numberText.test(value) ? Number(value) : value;
  if (typeof count !== 'number' || !(count >= 0 && count <= mostUnits)) return undefined;
  return count > 0 ? Math.max(1, Math.round(count * partsOfUnit)) / partsOfUnit : 0;
}

const countNames = ['prompt_tokens', 'input_tokens', 'completion_tokens', 'output_tokens', 'total_tokens'] as const;

/** A usage of OpenAI's API, or one that has a total alone, as some providers of reranks and vectors do: then all of it is input. */
function tokensIn(usage: unknown): ReportedUsage | undefined {
  const ofBoth = usageFrom(usage);
  if (ofBoth || !isObject(usage)) return ofBoth;
  // a count that cannot be believed is no count of 0
  if (countNames.some((name) => Number.isNaN(usageCount(usage, name)))) return undefined;
  const inputTokens = usageCount(usage, 'prompt_tokens', 'input_tokens', 'total_tokens');
  return inputTokens === undefined ? undefined : { inputTokens, cachedInputTokens: 0, outputTokens: 0 };
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
  readonly #reader = createBodyReader(
    () => this.#memberReader(),
    () => this.#eventReader(),
  );

  /** @param pointer the names that lead to the units; none where answers have none */
  constructor(speaks: Dialect, pointer: readonly string[]) {
    this.#pointer = pointer;
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
  }

  /** Reads the units of an answer, or of an event. */
  #unitsReader(): JsonMembers | undefined {
    if (this.#pointer.length === 0) return undefined;
    return pointerReader(this.#pointer, (value) => {
      const units = unitsFrom(value);
      if (units !== undefined) this.units = Math.max(this.units ?? 0, units);
    });
  }

  #memberReader() {
    const members: Record<string, unknown> = {};
    const units = this.#unitsReader();
    const reader = new JsonMembers({
      names: ['usage', 'meta'],
      keepLimit,
      onMember(name, value) {
        members[name] = value;
      },
    });
    return {
      read: (chunk: Buffer) => {
        if (reader.isWhole) return;
        units?.read(chunk);
        reader.read(chunk);
        if (!reader.isWhole) return;
        this.#isEnded = true;
        this.#add(members);
      },
    };
  }

  #eventReader() {
    const texts = new EventTexts(longestEvent);
    return {
      read: (chunk: Buffer) => {
        for (const event of texts.read(chunk)) {
          const data = Buffer.from(dataOf(event), 'latin1');
          this.#unitsReader()?.read(data);
          this.#add(parsed(data.toString()) ?? {});
          this.#isEnded ||= doneEvent.test(event);
        }
      },
    };
  }
}
