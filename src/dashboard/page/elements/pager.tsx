import { href, type Route } from '../routing/route.ts';
import { BackIcon, ForwardIcon } from './icons.tsx';

interface Props {
  readonly route: Route;
  /** The id the next page follows; absent on the last one. */
  readonly next: string | undefined;
}

/** One page at a time, however many there are; the place is in the address, so that going back works. */
export function Pager({ route, next }: Props) {
  const { after, ...first } = route.query;
  if (!after && !next) return null;
  return (
    <nav class="pager" aria-label="Pages">
      {after && (
        <a class="button button-plain" href={href(route.path, first)}>
          <BackIcon />
          Newest
        </a>
      )}
      {next && (
        <a class="button button-plain" href={href(route.path, { ...first, after: next })}>
          Older
          <ForwardIcon />
        </a>
      )}
    </nav>
  );
}
