import { InvalidArgumentError } from 'commander';
import type { Schemas } from '../client/api.ts';
import { count, pairs, parseExact } from '../client/flags.ts';
import type { FlagChanges } from '../client/operation-command.ts';

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

/** The options of the fields that a webhook may have. */
export const fieldFlags = {
  description: { flags: '--description <text>', meaning: 'what it is for' },
  metadata: {
    flags: '--metadata <key=value>',
    meaning: 'a value of your own; may be repeated',
    read: pairs('=', 'team=billing', trimmed),
  },
  filters: {
    flags: '--filter <path=values>',
    meaning:
      'send only events with one of these values (commas between them) at this path, such as data.currency=usd,eur; may be repeated',
    read: pairs('=', 'data.currency=usd,eur', filterValues),
  },
  rate_limit: {
    flags: '--rate-limit <requests>',
    meaning: 'the most requests a second, 1 to 1000; what is above waits',
    read: count,
  },
  headers: {
    flags: '--header <name: value>',
    meaning: 'sent with each delivery, and never shown again; may be repeated',
    read: pairs(':', "'x-api-key: 1234'", trimmed),
  },
} satisfies FlagChanges;

export const clearable = Object.keys(fieldFlags).map((name) => name.replace('_', '-'));

export function fieldsToClear(text: string, before: Record<string, null> = {}): Record<string, null> {
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !clearable.includes(name));
  if (unknown !== undefined) throw new InvalidArgumentError(`It must be one of ${clearable.join(', ')}.`);
  return { ...before, ...Object.fromEntries(names.map((name) => [name.replace('-', '_'), null])) };
}
