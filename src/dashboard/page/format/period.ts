/** Hours. */
const spans: Readonly<Record<string, number>> = { '1h': 1, '24h': 24, '7d': 168 };

/** The start of a span that is chosen, to the minute, so that asking again is the same question. */
export function sinceOf(chosen: string | undefined, now = Date.now()): string | undefined {
  const span = spans[chosen ?? ''];
  if (span === undefined) return undefined;
  return new Date(Math.floor((now - span * 3_600_000) / 60_000) * 60_000).toISOString();
}

/** The choice of a period between two moments. */
export const ownRange = 'range';

/** The period that an address says: a span before now, or two moments. */
export function periodOf(query: Readonly<Record<string, string>>): { since?: string; until?: string } {
  const { time, since, until } = query;
  if (time === ownRange) return { ...(since && { since }), ...(until && { until }) };
  const start = sinceOf(time);
  return start === undefined ? {} : { since: start };
}

const two = (n: number) => String(n).padStart(2, '0');

/** A moment as the browser writes local times: `2026-01-31T12:00`; `''` where there is none. */
export function toLocal(iso: string | undefined): string {
  const at = new Date(iso ?? '');
  if (Number.isNaN(at.getTime())) return '';
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-');
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** A local time as the browser writes it, in ISO 8601 and UTC; `''` where there is none. */
export function fromLocal(local: string): string {
  return local === '' ? '' : new Date(local).toISOString();
}
