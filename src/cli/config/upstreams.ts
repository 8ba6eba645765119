import { readFileSync } from 'node:fs';
import { GatewayError } from '../../errors.ts';
import { isObject, refuseOption } from '../../options/kinds.ts';
import { checkUpstreams, type UpstreamOptions } from '../../options/upstreams.ts';
import { type Environment, omitUndefined } from './environment.ts';
import type { Settings } from './variables.ts';

/**
 * The upstreams that the environment names, itself or in a file.
 * @throws GatewayError `invalid_options`; `param` is the variable
 */
export function upstreamsOf(settings: Settings, env: Environment): readonly UpstreamOptions[] | undefined {
  return namedUpstreams(settings, env)?.map((upstream) => {
    const proxy = upstream.proxy ?? proxyFor(new URL(upstream.baseUrl), settings);
    return { ...upstream, ...omitUndefined({ proxy }) };
  });
}

function namedUpstreams(settings: Settings, env: Environment): readonly UpstreamOptions[] | undefined {
  const { UPSTREAM_BASE_URL: baseUrl, UPSTREAM_API_KEY: apiKey } = settings;
  if (settings.UPSTREAMS_FILE) {
    const other = Object.keys(settings).find((name) => name.startsWith('UPSTREAM_'));
    if (other) refuseOption('UPSTREAMS_FILE', `is set together with ${other}; put that upstream into the file`);
    return readUpstreamsFile(settings.UPSTREAMS_FILE, env);
  }
  if (baseUrl) return [{ name: 'upstream', baseUrl, ...omitUndefined({ apiKey }) }];
  if (apiKey) refuseOption('UPSTREAM_API_KEY', 'is set without UPSTREAM_BASE_URL, so nothing would use it; set both');
  return undefined;
}

/** The proxy of the environment for a URL, by the rules of undici's `EnvHttpProxyAgent`, but that a variable that is set to nothing is not set. */
function proxyFor(url: URL, { HTTPS_PROXY, HTTP_PROXY, NO_PROXY = '' }: Settings): string | undefined {
  const proxy = url.protocol === 'https:' ? (HTTPS_PROXY ?? HTTP_PROXY) : HTTP_PROXY;
  return proxy === undefined || isExcepted(url, NO_PROXY) ? undefined : proxy;
}

/** The entries of NO_PROXY. */
const exceptionsOf = (noProxy: string): readonly string[] => noProxy.split(/[,\s]+/);

/** A warning where NO_PROXY names networks, which it does not know, as it does not for undici and curl. */
export function ignoredExceptions({ NO_PROXY = '' }: Settings): readonly string[] {
  const networks = exceptionsOf(NO_PROXY).filter((entry) => entry.includes('/'));
  if (networks.length === 0) return [];
  return [`NO_PROXY: ${networks.join(', ')} has no effect: name hosts, domains or single addresses, not networks`];
}

/** Whether NO_PROXY names a URL's host, or a domain above it. */
function isExcepted({ hostname, port, protocol }: URL, noProxy: string): boolean {
  if (noProxy.trim() === '*') return true;
  const usedPort = port || (protocol === 'https:' ? '443' : '80');
  const host = hostname.replace(/^\[|\]$/g, '');
  return exceptionsOf(noProxy).some((entry) => {
    // an IPv6 address has colons of its own
    const [, bracketed, name = bracketed ?? entry, entryPort = usedPort] =
      /^(?:\[(.*)\]|([^:]+))(?::(\d+))?$/.exec(entry) ?? [];
    const domain = name.toLowerCase().replace(/^\*?\./, '');
    return domain !== '' && entryPort === usedPort && (host === domain || host.endsWith(`.${domain}`));
  });
}

/**
 * Reads the upstreams that a JSON file lists, by the fields of the option `upstreams`.
 * @throws GatewayError `invalid_options`; `param` is `UPSTREAMS_FILE`, the message names the file and the field
 */
function readUpstreamsFile(file: string, env: Environment): readonly UpstreamOptions[] {
  const given = readJson(file);
  if (!Array.isArray(given)) refuseOption('UPSTREAMS_FILE', `${file} must be a list of upstreams`);
  if (given.length === 0) refuseOption('UPSTREAMS_FILE', `${file} must have an upstream`);
  const upstreams = given.map((upstream, i) => withSecrets(`${file}[${i}]`, upstream, env)) as UpstreamOptions[];
  try {
    checkUpstreams(upstreams);
  } catch (cause) {
    if (!(cause instanceof GatewayError)) throw cause;
    refuseOption('UPSTREAMS_FILE', cause.message.replace(/^upstreams(.*?): /s, `${file}$1 `));
  }
  return upstreams;
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // a parser's message quotes the text, which may hold a key
    return refuseOption('UPSTREAMS_FILE', code ? `${file} cannot be read (${code})` : `${file} is not JSON`);
  }
}

/** An upstream with its key, headers and proxy, which can come from environment variables: `{ "env": "OPENAI_API_KEY" }`. */
function withSecrets(place: string, upstream: unknown, env: Environment): object {
  if (!isObject(upstream)) refuseOption('UPSTREAMS_FILE', `${place} must be an object`);
  const { apiKey, headers, proxy, ...others } = upstream;
  if (headers !== undefined && !isObject(headers)) refuseOption('UPSTREAMS_FILE', `${place}.headers must be an object`);
  return {
    ...others,
    ...(apiKey !== undefined && { apiKey: secretOf(`${place}.apiKey`, apiKey, env) }),
    ...(proxy !== undefined && { proxy: proxy === false ? proxy : secretOf(`${place}.proxy`, proxy, env) }),
    ...(headers && {
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name, secretOf(`${place}.headers.${name}`, value, env)]),
      ),
    }),
  };
}

function secretOf(place: string, given: unknown, env: Environment): string {
  if (typeof given === 'string' && /^[\x20-\x7e]+$/.test(given)) return given;
  const name = isObject(given) && Object.keys(given).length === 1 ? given.env : undefined;
  if (typeof name !== 'string') {
    const problem = 'must be text in printable ASCII, or an object such as { "env": "OPENAI_API_KEY" }';
    return refuseOption('UPSTREAMS_FILE', `${place} ${problem}`);
  }
  const value = env[name];
  if (value) return value;
  // somebody may have put the key where its name belongs; the log must not show it
  const isName = /^[A-Z_][A-Z0-9_]*$/.test(name);
  const problem = isName
    ? `names the variable ${name}, which is not set`
    : 'must name a variable, such as OPENAI_API_KEY';
  return refuseOption('UPSTREAMS_FILE', `${place} ${problem}`);
}

/** What is probably a mistake in upstreams and works nevertheless, in sentences for the operator. */
export function pathlessUpstreams(upstreams: readonly UpstreamOptions[] = []): string[] {
  return upstreams.flatMap(({ name, baseUrl }) => {
    const { pathname, origin } = new URL(baseUrl);
    if (pathname !== '/') return [];
    return [`${origin} of the upstream '${name}' has no path; the APIs of most providers are under /v1`];
  });
}
