/** What {@link sendTo} sends beside method and path. */
export interface Request {
  /** The API key; empty for none. */
  readonly key: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends a request and reads the answer, and the error code in it, if it has one. */
export async function sendTo(url: string, method: string, path: string, { key, body = '', headers = {} }: Request) {
  const response = await fetch(url + path, {
    method,
    redirect: 'manual',
    headers: {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(body && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body && { body }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, code: /"code":"(\w+)"/.exec(text)?.[1] };
}
