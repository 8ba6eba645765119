/** A URL that needs no parsing: nothing to normalise, no user, no fragment. Its query may have any printable ASCII but `#`. */
const plainUrl = /^(https?:\/\/[a-z0-9.-]+(?::\d+)?)(\/[\w\-~:@!$&'()*+,;=%/]*(?:\?[!"$-~]*)?)$/;

/** The origin of a URL, and its path with the query. Pure. @throws TypeError `ERR_INVALID_URL` */
export function splitUrl(url: string): { origin: string; path: string } {
  const [, origin, path] = plainUrl.exec(url) ?? [];
  if (origin !== undefined && path !== undefined) return { origin, path };
  const parsed = new URL(url);
  return { origin: parsed.origin, path: parsed.pathname + parsed.search };
}
