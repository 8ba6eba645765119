/** How dates of HTTP begin, in each of their three formats (RFC 9110, section 5.6.7). */
const dayName = /^(?:mon|tue|wed|thu|fri|sat|sun)/i;
/** The format of asctime, which names no time zone. */
const asctimeEnd = /:\d\d \d{4}$/;

function dateOf(text: string): number {
  if (!dayName.test(text)) return Number.NaN;
  return Date.parse(asctimeEnd.test(text) ? `${text} GMT` : text);
}

/**
 * The wait that a `Retry-After` asks for, in milliseconds: seconds or a date (RFC 9110, section 10.2.3). `undefined` if it is
 * neither; 0 for a date in the past.
 * @param now milliseconds since the epoch
 */
export function retryAfterWait(value: unknown, now: number): number | undefined {
  const text = typeof value === 'string' ? value.trim() : '';
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1_000;
  const date = dateOf(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
