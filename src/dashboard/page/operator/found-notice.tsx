import { Time } from '../elements/time.tsx';
import type { Route } from '../routing/route.ts';
import { kindOf } from './found.ts';

/** What a search by id found in this account. */
export function FoundNotice({ route: { query } }: { route: Route }) {
  const { found = '', id, at = '' } = query;
  const kind = kindOf(found);
  if (!kind || !id) return null;
  return (
    <div class="notice">
      <p>
        {kind} <code>{id}</code> belongs to this account.
        {!Number.isNaN(Date.parse(at)) && (
          <>
            {' '}
            Created <Time at={at} />.
          </>
        )}
      </p>
    </div>
  );
}
