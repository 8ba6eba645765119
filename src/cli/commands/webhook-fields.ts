import { type Command, InvalidArgumentError } from 'commander';
import type { Schemas } from '../client/api.ts';
import { count, pairs, parseExact } from '../client/flags.ts';

type Fields = Pick<Schemas['WebhookCreate'], 'description' | 'metadata' | 'filters' | 'rate_limit' | 'headers'>;
type Filters = NonNullable<Fields['filters']>;

/** The options of the fields that a webhook may have. */
export interface FieldOptions {
  readonly description?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly filter?: Filters;
  readonly rateLimit?: number;
  readonly header?: Readonly<Record<string, string>>;
}

/** What is wrong with a value that is JSON, but would not be sent as it is written. */
function notSendable(text: string, { code, message }: NodeJS.ErrnoException): InvalidArgumentError {
  if (code !== 'number_not_exact') return new InvalidArgumentError(`The values after =: ${message}.`);
  return new InvalidArgumentError(
    `The number ${text} has more digits than JSON numbers keep, so it would change; in quotes it is a string: '"${text}"'.`,
  );
}

/** A number or a boolean where it is written as one, and in quotes always a text. */
function filterValue(text: string): Schemas['WebhookFilterValue'] {
  try {
    const value = parseExact(text);
    if (['string', 'number', 'boolean'].includes(typeof value)) return value as Schemas['WebhookFilterValue'];
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw notSendable(text, error as Error);
    // a text without quotes
  }
  return text;
}

const trimmed = (text: string): string => text.trim();

function filterValues(given: string): Schemas['WebhookFilterValues'] {
  const text = given.trim();
  if (!text.startsWith('[')) return text.split(',').map((value) => filterValue(value.trim()));
  try {
    return parseExact(text) as Schemas['WebhookFilterValues'];
  } catch (error) {
    throw new InvalidArgumentError(
      error instanceof SyntaxError
        ? 'The values after = begin like a JSON array, but are none.'
        : `The values after =: ${(error as Error).message}.`,
    );
  }
}

export function withFieldOptions<Used extends Command>(command: Used): Used {
  return command
    .option('--description <text>', 'what it is for')
    .option('--metadata <key=value>', 'a value of your own; may be repeated', pairs('=', 'team=billing', trimmed))
    .option(
      '--filter <path=values>',
      'send only events with one of these values (commas between them) at this path, such as data.currency=usd,eur; may be repeated',
      pairs('=', 'data.currency=usd,eur', filterValues),
    )
    .option('--rate-limit <requests>', 'the most requests a second, 1 to 1000; what is above waits', count)
    .option(
      '--header <name: value>',
      'sent with each delivery, and never shown again; may be repeated',
      pairs(':', "'x-api-key: 1234'", trimmed),
    );
}

export function fieldsOf({ description, metadata, filter: filters, rateLimit, header: headers }: FieldOptions): Fields {
  return {
    ...(description !== undefined && { description }),
    ...(metadata && { metadata }),
    ...(filters && { filters }),
    ...(rateLimit !== undefined && { rate_limit: rateLimit }),
    ...(headers && { headers }),
  };
}

/** The options by the names of the fields that they set. */
export const clearable = ['description', 'metadata', 'filters', 'rate-limit', 'headers'] as const;

export function fieldsToClear(text: string, before: Record<string, null> = {}): Record<string, null> {
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !clearable.some((known) => known === name));
  if (unknown !== undefined) throw new InvalidArgumentError(`It must be one of ${clearable.join(', ')}.`);
  return { ...before, ...Object.fromEntries(names.map((name) => [name.replace('-', '_'), null])) };
}
