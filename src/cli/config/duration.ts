const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

type Unit = keyof typeof units;

const form = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/;

/**
 * Reads a duration: a number and one of `ms`, `s`, `m`, `h`, `d`, or a bare `0`.
 * @returns whole milliseconds; `undefined` for anything else, a bare number included, which the package `ms` takes for milliseconds
 */
export function parseDuration(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === '0') return 0;
  const [, amount, unit] = form.exec(trimmed) ?? [];
  if (amount === undefined || unit === undefined) return undefined;
  const ms = Number(amount) * units[unit as Unit];
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** Writes a duration in the largest unit that divides it: `90s`, `2h`. */
export function formatDuration(ms: number): string {
  const order: readonly Unit[] = ['d', 'h', 'm', 's'];
  const unit = ms === 0 ? undefined : order.find((name) => ms % units[name] === 0);
  return unit ? `${ms / units[unit]}${unit}` : `${ms}ms`;
}
