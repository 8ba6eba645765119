import { href, type Route } from '../routing/route.ts';
import { BackIcon, ForwardIcon } from './icons.tsx';

interface Props {
  readonly route: Route;
  /** The id the next page follows; absent on the last one. */
  readonly next: string | undefined;
  /** What the first and the next page are called. @default those of a list that is newest first */
  readonly names?: { readonly first: string; readonly next: string };
}

/** One page at a time, however many there are; the place is in the address, so that going back works. */
export function Pager({ route, next, names = { first: 'Newest', next: 'Older' } }: Props) {
  const { after, ...first } = route.query;
  if (!after && !next) return null;
  return (
    <nav class="pager" aria-label="Pages">
      {after && (
        <a class="button button-plain" href={href(route.path, first)}>
          <BackIcon />
          {names.first}
        </a>
      )}
      {next && (
        <a class="button button-plain" href={href(route.path, { ...first, after: next })}>
          {names.next}
          <ForwardIcon />
        </a>
      )}
    </nav>
  );
}
