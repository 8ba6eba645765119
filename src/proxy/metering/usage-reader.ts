import { searchedKey } from '../../http/body/json/search.ts';
import { type ReportedUsage, usageFrom } from './reported-usage.ts';
import { ValueReader } from './value-reader.ts';

/** What may be kept while a usage object is not complete. Bytes. */
const keepLimit = 16 * 1024;

const usageKey = searchedKey('usage', '{');

const tokensOf = ({ inputTokens, outputTokens }: ReportedUsage): number => inputTokens + outputTokens;

/**
 * Reads the `usage` out of bytes that pass by. Of several the largest counts: streams that report again and again only grow,
 * and one that something else in the answer is called must not replace the real one by less.
 */
export class UsageReader {
  /** The usage read; `undefined` until there is one that can be believed. */
  usage: ReportedUsage | undefined;
  readonly #reader = new ValueReader(usageKey, keepLimit, (value) => {
    const usage = usageFrom(value);
    if (usage && (!this.usage || tokensOf(usage) >= tokensOf(this.usage))) this.usage = usage;
  });

  read(chunk: Buffer): void {
    this.#reader.read(chunk);
  }
}
