const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** A time span in one word: `12s`, `3m`, `5h`, `2d`; milliseconds below a second. */
export function spanOf(ms: number): string {
  if (ms < second) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < minute) return `${Math.floor(ms / second)}s`;
  if (ms < hour) return `${Math.floor(ms / minute)}m`;
  return ms < 2 * day ? `${Math.floor(ms / hour)}h` : `${Math.floor(ms / day)}d`;
}

/** How far a time is from now: `3m ago`, `in 12s`, `now`. */
export function relative(moment: string, now: number): string {
  const distance = now - Date.parse(moment);
  if (Math.abs(distance) < second) return 'now';
  return distance > 0 ? `${spanOf(distance)} ago` : `in ${spanOf(-distance)}`;
}

function two(number: number): string {
  return String(number).padStart(2, '0');
}

/** A time in the reader's time zone: `2026-01-31 18:05:09`. */
export function localTime(moment: string): string {
  const at = new Date(moment);
  const date = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-');
  return `${date} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')}`;
}

/** Both: `2026-01-31 18:05:09 (3m ago)`. */
export function momentOf(moment: string, now: number): string {
  return `${localTime(moment)} (${relative(moment, now)})`;
}
