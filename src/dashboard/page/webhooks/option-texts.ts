import { exactNumber } from '../data/error.ts';
import type { Webhook, WebhookCreate, WebhookUpdate } from '../data/types.ts';

type Options = Pick<WebhookCreate, 'description' | 'metadata' | 'filters' | 'rate_limit' | 'headers'>;
type FilterValues = NonNullable<Options['filters']>[string];

/** What a form has of a webhook's options, as texts. */
export interface OptionTexts {
  readonly description: string;
  /** A `key = value` on each line. */
  readonly metadata: string;
  /** A `path = value, value` on each line. */
  readonly filters: string;
  readonly rate_limit: string;
  /** A `name: value` on each line; only the names of those that are stored. */
  readonly headers: string;
}

/** A text in quotes where it would be read as something else. */
function toText(value: FilterValues[number]): string {
  const isPlain =
    typeof value === 'string' && value === value.trim() && !value.includes(',') && parse(value) === undefined;
  return isPlain ? value : JSON.stringify(value);
}

/** The value that is written as JSON; `undefined` for a text without quotes. */
function parse(text: string): FilterValues[number] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  } catch {
    // a text without quotes
  }
  return undefined;
}

/**
 * A number or a boolean where it is written as one, and in quotes always a text.
 * @throws ApiError for a number that JSON would change
 */
function toValue(text: string): FilterValues[number] {
  const value = parse(text);
  if (typeof value === 'number') return exactNumber(text, 'filters');
  return value ?? text;
}

/** Texts in quotes may have commas. */
function toValues(text: string): FilterValues {
  const values = text.match(/\s*("(?:[^"\\]|\\.)*"|[^,]+)\s*/g) ?? [];
  return values.map((value) => toValue(value.trim()));
}

function pairs(text: string, separator = '='): [name: string, value: string][] {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => {
    const at = line.indexOf(separator);
    return at < 0 ? [line.trim(), ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}

/** The options of a webhook as a form shows them. */
export function toTexts(webhook: Partial<Webhook>): OptionTexts {
  const { description = '', metadata = {}, filters = {}, rate_limit, header_names = [] } = webhook;
  return {
    description,
    metadata: Object.entries(metadata)
      .map(([key, value]) => `${key} = ${value}`)
      .join('\n'),
    filters: Object.entries(filters)
      .map(([path, values]) => `${path} = ${values.map(toText).join(', ')}`)
      .join('\n'),
    rate_limit: String(rate_limit ?? ''),
    headers: header_names.map((name) => `${name}: `).join('\n'),
  };
}

/**
 * The fields of a new webhook: those that are filled in.
 * @throws ApiError for a number that is none, or that JSON would change
 */
export function toOptions({ description, metadata, filters, rate_limit, headers }: OptionTexts): Options {
  return {
    ...(description.trim() && { description: description.trim() }),
    ...(metadata.trim() && { metadata: Object.fromEntries(pairs(metadata)) }),
    ...(filters.trim() && {
      filters: Object.fromEntries(pairs(filters).map(([path, values]) => [path, toValues(values)])),
    }),
    ...(rate_limit && { rate_limit: exactNumber(rate_limit, 'rate_limit') }),
    ...(headers.trim() && { headers: Object.fromEntries(pairs(headers, ':')) }),
  };
}

/** What the form has changed; `null` for what is now empty. */
export function toOptionChanges(texts: OptionTexts, webhook: Webhook): Pick<WebhookUpdate, keyof Options> {
  const before = toTexts(webhook);
  const names = (Object.keys(before) as (keyof OptionTexts)[]).filter((name) => texts[name] !== before[name]);
  const options = toOptions(texts);
  return Object.fromEntries(names.map((name) => [name, options[name] ?? null]));
}
