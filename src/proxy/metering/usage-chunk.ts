import { JsonSearch, searchedKey } from '../../http/json/search.ts';

const usageObjects = searchedKey('usage', '{');

/** Whether a usage object begins somewhere in these bytes; cheap enough for every chunk of a stream. Pure. */
export function holdsUsage(bytes: Buffer): boolean {
  const search = new JsonSearch(usageObjects);
  search.next(bytes, 0);
  return search.isInside;
}

/** The `data` of an event: its lines joined (WHATWG HTML, 9.2.6). */
export function dataOf(event: string): string {
  return event
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).replace(/^ /, ''))
    .join('\n');
}

/**
 * Whether an event is the extra chunk that `include_usage` adds at the end of a stream: a usage object and no choices, which some
 * providers write as `[]`, some as `null`, and some leave out. It is removed unless the client asked for it. Pure.
 */
export function isUsageChunk(event: Buffer): boolean {
  if (!holdsUsage(event)) return false;
  try {
    const { choices, usage, error } = JSON.parse(dataOf(event.toString('utf8')));
    const hasChoices = Array.isArray(choices) ? choices.length > 0 : choices !== undefined && choices !== null;
    return typeof usage === 'object' && usage !== null && !hasChoices && !error;
  } catch {
    return false;
  }
}
