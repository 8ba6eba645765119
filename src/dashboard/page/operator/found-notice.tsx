import { Time } from '../elements/time.tsx';
import type { Route } from '../routing/route.ts';
import { typeName } from './search-result.ts';

/** What a search by id found in this account. */
export function FoundNotice({ route: { query } }: { route: Route }) {
  const { found = '', id, at = '' } = query;
  const kind = typeName(found);
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
