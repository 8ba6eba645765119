import { useLayoutEffect, useState } from 'preact/hooks';

/** Where the page is: what follows the `#`, so that no server needs to know and any prefix works. */
export interface Route {
  /** `['webhooks', 'wh_…']` */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
}

function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return {
    path: path.split('/').filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The address of a place in the page; parts of the query that are not set are left out. */
export function href(path: readonly string[], query: Readonly<Record<string, string | undefined>> = {}): string {
  const set = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []));
  const rest = set.length === 0 ? '' : `?${new URLSearchParams(set)}`;
  return `#/${path.map(encodeURIComponent).join('/')}${rest}`;
}

export function goTo(address: string): void {
  window.location.hash = address;
}

/** Where the page is now; what a view was last drawn for may be a moment older. */
export function presentRoute(): Route {
  return parse(window.location.hash);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(presentRoute);
  // before the page is painted: a place that is chosen between the two would be missed
  useLayoutEffect(() => {
    const follow = () => setRoute(presentRoute());
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  return route;
}
