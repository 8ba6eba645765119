import { refuse } from '../../errors.ts';

/**
 * Parses the query of a URL. The host's own `query parser` setting does not matter.
 * @throws GatewayError `duplicate_parameter` for a parameter that appears twice
 */
export function parseQuery(url: string): Record<string, unknown> {
  const start = url.indexOf('?');
  const query: Record<string, unknown> = Object.create(null);
  if (start === -1) return query;
  for (const [name, value] of new URLSearchParams(url.slice(start))) {
    if (name in query) {
      refuse('duplicate_parameter', name, 'appears twice in the query; give it once');
    }
    query[name] = value;
  }
  return query;
}

/** The parameters in the query of a URL; of one that appears several times, the last. */
export function readQuery(url: string): Record<string, unknown> {
  const start = url.indexOf('?');
  return start === -1 ? {} : Object.fromEntries(new URLSearchParams(url.slice(start)));
}

/** Says that a parameter is not one of those that an operation takes. */
export function notAParameter(known: readonly string[]): string {
  return `is not a parameter of this operation; ${known.length === 0 ? 'it takes none' : `it takes ${known.join(', ')}`}`;
}

/**
 * Refuses a query parameter that an operation does not have.
 * @throws GatewayError `unknown_parameter`
 */
export function checkKnown(query: Readonly<Record<string, unknown>>, known: readonly string[]): void {
  const unknown = Object.keys(query).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  refuse('unknown_parameter', unknown, notAParameter(known));
}
