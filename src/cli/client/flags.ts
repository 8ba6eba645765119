import { InvalidArgumentError } from 'commander';
import { isExactNumber } from '../../http/json/exact-number.ts';
import { parseDuration } from '../config/duration.ts';

/** Gathers an option that may be given several times, or once with commas. */
export function several(text: string, before: readonly string[] = []): readonly string[] {
  const values = text.split(',').map((value) => value.trim());
  if (values.some((value) => value === '')) throw new InvalidArgumentError('There is a comma too many.');
  return [...before, ...values];
}

/**
 * Reads a moment: a span before now such as `2h`, or a time; one without a zone is on the local clock.
 * @returns ISO 8601, UTC
 */
export function moment(now: () => number): (text: string) => string {
  return (text) => {
    const span = parseDuration(text);
    const at = new Date(span === undefined ? text : now() - span);
    if (!Number.isNaN(at.getTime())) return at.toISOString();
    throw new InvalidArgumentError(
      'It must be a span before now such as 30m, 2h or 7d, or a time such as 2026-01-31T08:00.',
    );
  };
}

/** Reads a number of things, from 1. */
export function count(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= 100_000) return value;
  throw new InvalidArgumentError('It must be a whole number from 1 to 100000.');
}

/** Reads a number in decimal. @throws InvalidArgumentError for one that JSON would change; `undefined` for what is none */
export function decimal(text: string): number | undefined {
  if (!/^\d+(\.\d+)?$/.test(text)) return undefined;
  if (isExactNumber(text)) return Number(text);
  throw new InvalidArgumentError('It has more digits than JSON numbers keep, so it would change; use fewer.');
}

/** Reads an amount above nothing. */
export function amount(text: string): number {
  const value = decimal(text);
  if (value !== undefined && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0, such as 500 or 0.25.');
}
