import OpenAI from 'openai';

/** One method of the official client that makes one request. */
export interface ClientOperation {
  /** The way to it from the client: `chat.completions.create`. */
  readonly name: string;
  /** What it asks for, with `id` for each placeholder: `GET /v1/files/id`. */
  readonly request: string;
  /** Calls it with placeholders. */
  call(client: OpenAI): PromiseLike<unknown>;
}

/** A resource of the client, as `client.chat.completions`. */
type Resource = Readonly<Record<string, unknown>>;

// biome-ignore lint/complexity/noBannedTypes: what is known of it is its source
type Method = Function;

/** Methods without a request of their own (`stream`, `poll`) call others. */
const makesRequest = /this\._client\s*\.\w+\(/;

/** An id where a method takes one, and an object with the ids that it takes by name. */
function placeholders(method: Method): unknown[] {
  const [, named = ''] = /const \{([^}]*)\} = (?:params|body|query)/.exec(method.toString()) ?? [];
  const ids = named.split(',').map((name) => name.trim());
  return ['id', Object.fromEntries(ids.filter((name) => /^\w+$/.test(name)).map((name) => [name, 'id'])), {}];
}

/** The names of all methods that make a request, in the resources of `parent` and below. */
function methodNames(client: OpenAI, parent: object, path: readonly string[] = []): string[][] {
  return Object.entries(parent).flatMap(([name, value]) => {
    const resource = value as Resource | null;
    if (name === '_client' || resource?._client !== client) return [];
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(resource)).filter(
      (method) => method !== 'constructor' && makesRequest.test(String(resource[method])),
    );
    return [...methods.map((method) => [...path, name, method]), ...methodNames(client, resource, [...path, name])];
  });
}

function callByName(client: OpenAI, path: readonly string[]): PromiseLike<unknown> {
  const resource = path.slice(0, -1).reduce<unknown>((at, name) => (at as Resource)[name], client) as Resource;
  const method = resource[path.at(-1) as string] as Method;
  return method.apply(resource, placeholders(method));
}

/** Every operation of the `openai` package that is installed, found by calling its methods. */
export async function clientOperations(): Promise<readonly ClientOperation[]> {
  const requests: string[] = [];
  const client = new OpenAI({
    baseURL: 'http://provider/v1',
    apiKey: 'sk-any',
    adminAPIKey: 'sk-any',
    maxRetries: 0,
    async fetch(url, init) {
      const { host, pathname } = new URL(String(url));
      // before its first form, the client asks fetch for an address of its own to see what fetch can do
      if (host === 'provider') requests.push(`${init?.method?.toUpperCase()} ${pathname}`);
      return Response.json({});
    },
  });
  const found: ClientOperation[] = [];
  for (const path of methodNames(client, client)) {
    requests.length = 0;
    const name = path.join('.');
    await callByName(client, path);
    const [request, ...more] = requests;
    if (request === undefined || more.length > 0) throw new Error(`${name} made ${requests.length} requests`);
    found.push({ name, request, call: (own) => callByName(own, path) });
  }
  return found;
}
