import type { Audience } from './publication.ts';

/** Who hears of an event, as the database says; and who heard of the last one, which is nearly always the same. */
export interface Asked {
  readonly actual: Promise<Audience>;
  /** Nobody has been asked about lately, or they are many. */
  readonly expected: Audience | undefined;
  /** Whether the database says what was expected. Rejects as `actual` does. */
  readonly isAsExpected: Promise<boolean>;
}

/** Account and type that are remembered. */
const most = 1_000;
/** Webhooks in an audience that is remembered. */
const largest = 40;

const isEqual = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((id, i) => id === b[i]);
const isSame = (a: Audience, b: Audience) => isEqual(a.targets, b.targets) && isEqual(a.skipped, b.skipped);

/**
 * Asks for audiences, and remembers them: an event can be made ready for its last audience while the database is asked for
 * the present one, as long as it is only stored when they are the same. That spares every publisher a round trip.
 */
export function createAudiences(
  subscribers: (userId: string, type: string) => Promise<Audience>,
  latestElection: () => string,
): (userId: string, type: string) => Asked {
  /** The one asked for longest ago first. */
  const known = new Map<string, Audience>();

  function remember(key: string, audience: Audience): void {
    known.delete(key);
    if (audience.targets.length + audience.skipped.length > largest) return;
    known.set(key, audience);
    const [oldest] = known.keys();
    if (known.size > most && oldest !== undefined) known.delete(oldest);
  }

  return function ask(userId, type) {
    const key = `${type} ${userId}`;
    const last = known.get(key);
    const lookupElection = latestElection();
    const actual = subscribers(userId, type).then((audience) => ({ ...audience, lookupElection }));
    const expected = last && { ...last, lookupElection };
    const isAsExpected = actual.then((audience) => {
      remember(key, audience);
      return expected !== undefined && isSame(audience, expected);
    });
    // whoever does not get as far as waiting for it has failed otherwise
    isAsExpected.catch(() => {});
    return { actual, expected, isAsExpected };
  };
}
