const whole = new Intl.NumberFormat();
const oneDecimal = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

/** `12,345` */
export function count(n: number): string {
  return whole.format(n);
}

const fraction = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });

/** `12,345`, `0.0125` */
export function amount(n: number): string {
  return Number.isInteger(n) || n >= 1_000 ? whole.format(n) : fraction.format(n);
}

/** `1 attempt`, `2 attempts` */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A share of 1 as `99.9%`; what is not quite all never shows as 100%, what is not quite nothing never as 0%. */
export function percent(share: number): string {
  const shown = share > 0.999 && share < 1 ? 0.999 : share > 0 && share < 0.001 ? 0.001 : share;
  return `${oneDecimal.format(shown * 100)}%`;
}

const threeDigits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const byteUnits = ['bytes', 'kB', 'MB', 'GB', 'TB'] as const;

/** `812 bytes`, `1.23 MB`, in powers of 1,000 */
export function bytes(n: number): string {
  if (n === 1) return '1 byte';
  let unit = 0;
  // what would be shown as 1,000 is 1 of the next unit
  for (; n >= 999.5 && unit < byteUnits.length - 1; unit += 1) n /= 1_000;
  return `${threeDigits.format(n)} ${byteUnits[unit]}`;
}

/** Milliseconds as `84 ms` or `1.2 s`. */
export function milliseconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${oneDecimal.format(ms / 1_000)} s`;
}

const thisYear = new Intl.DateTimeFormat(undefined, {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const anyYear = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium', hourCycle: 'h23' });

/** In the reader's zone, to the second: `Jan 31, 12:00:05`. */
export function localTime(iso: string): string {
  const date = new Date(iso);
  return (date.getFullYear() === new Date().getFullYear() ? thisYear : anyYear).format(date);
}

/** The reader's zone: `Europe/Berlin (GMT+1)`. */
export function timeZone(): string {
  const { timeZone: name } = Intl.DateTimeFormat().resolvedOptions();
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'shortOffset' }).formatToParts();
  const offset = parts.find(({ type }) => type === 'timeZoneName')?.value ?? '';
  return offset === '' || offset === name ? name : `${name} (${offset})`;
}

/** `2026-01-31 12:00:05.123 UTC` */
export function utcTime(iso: string): string {
  return new Date(iso).toISOString().replace('T', ' ').replace('Z', ' UTC');
}

const units = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const;

/** The largest unit of a span in seconds, and what is left of it in the next: `['2 h', ' 5 min']`, `['3 d', '']`. */
function unitsOf(seconds: number): [largest: string, next: string] {
  const at = units.findIndex(([size]) => seconds >= size);
  const [size, unit] = units[at] ?? [1, 's'];
  const [nextSize, nextUnit] = units[at + 1] ?? [1, 's'];
  const next = Math.floor((seconds % size) / nextSize);
  return [`${Math.floor(seconds / size)} ${unit}`, next === 0 ? '' : ` ${next} ${nextUnit}`];
}

/** The two largest units of a span in milliseconds: `4 min 10 s`, `2 h 5 min`, `3 d 4 h`. */
export function span(ms: number): string {
  return unitsOf(Math.max(0, Math.round(ms / 1_000))).join('');
}

/** The largest unit alone, from when to now: `just now`, `4 min ago`, `in 2 h`. */
export function timeFromNow(iso: string, now: number): string {
  const ms = Date.parse(iso) - now;
  if (Math.abs(ms) < 5_000) return 'just now';
  const [size] = unitsOf(Math.floor(Math.abs(ms) / 1_000));
  return ms < 0 ? `${size} ago` : `in ${size}`;
}
