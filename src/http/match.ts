/** What a request is matched against: an HTTP method and a path template such as `/v1/webhooks/{id}`. */
export interface Matchable {
  /** In capitals. */
  readonly method: string;
  readonly path: string;
}

/** The result of matching: one of our routes, or one of our paths with a method or a parameter that it does not take. */
export type Match<Route> =
  | { readonly kind: 'route'; readonly route: Route; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: 'method_not_allowed'; readonly allow: string }
  | { readonly kind: 'malformed_parameter'; readonly param: string };

interface Path<Route> {
  readonly pattern: RegExp;
  readonly names: readonly string[];
  readonly methods: ReadonlyMap<string, Route>;
  readonly allow: string;
}

const noParams: Readonly<Record<string, string>> = Object.freeze({});

/** `{model}` matches the rest of the path, because model ids contain slashes; any other parameter matches one segment. */
function toPattern(template: string): { pattern: RegExp; names: string[] } {
  const names: string[] = [];
  const source = template.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{(\w+)\}/g, (_, name: string) => {
    names.push(name);
    return name === 'model' ? '(.+)' : '([^/]+)';
  });
  return { pattern: new RegExp(`^${source}$`), names };
}

function allowHeader(methods: Iterable<string>): string {
  return [...methods].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
}

function pathOf(url: string): string {
  const end = url.indexOf('?');
  const path = end === -1 ? url : url.slice(0, end);
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

function readParams(
  names: readonly string[],
  values: readonly string[],
): Record<string, string> | { malformed: string } {
  const params: Record<string, string> = {};
  for (const [i, name] of names.entries()) {
    try {
      params[name] = decodeURIComponent(values[i] as string);
    } catch {
      return { malformed: name };
    }
  }
  return params;
}

/**
 * Makes the function that finds the route of a request, from its method and its URL below the mount point.
 * It returns `undefined` for an unknown path, and for OPTIONS, which the host's CORS answers.
 * As in Express by default, HEAD is GET and one trailing slash is ignored. Paths are case-sensitive.
 */
export function createMatcher<Route extends Matchable>(
  routes: readonly Route[],
): (method: string, url: string) => Match<Route> | undefined {
  const byPath = new Map<string, Map<string, Route>>();
  for (const route of routes) {
    const methods = byPath.get(route.path) ?? new Map<string, Route>();
    byPath.set(route.path, methods.set(route.method, route));
  }

  const fixed = new Map<string, Path<Route>>();
  const templates: Path<Route>[] = [];
  for (const [template, methods] of byPath) {
    const path = { ...toPattern(template), methods, allow: allowHeader(methods.keys()) };
    if (path.names.length === 0) fixed.set(template, path);
    else templates.push(path);
  }

  return function match(method, url) {
    if (method === 'OPTIONS') return undefined;
    const asked = pathOf(url);
    let values: readonly string[] = [];
    const path =
      fixed.get(asked) ??
      templates.find(({ pattern }) => {
        const found = pattern.exec(asked);
        if (found) values = found.slice(1);
        return found !== null;
      });
    if (!path) return undefined;

    const route = path.methods.get(method === 'HEAD' ? 'GET' : method);
    if (!route) return { kind: 'method_not_allowed', allow: path.allow };
    if (values.length === 0) return { kind: 'route', route, params: noParams };
    const params = readParams(path.names, values);
    if ('malformed' in params) return { kind: 'malformed_parameter', param: params.malformed as string };
    return { kind: 'route', route, params };
  };
}
