import { refuseOption } from '../../options/checks.ts';
import type { UpstreamOptions } from '../../options/options.ts';
import { type Environment, misspelled, type Settings, settingOf } from './environment.ts';
import { omitUndefined } from './omit-undefined.ts';
import { readUpstreamsFile } from './upstreams-file.ts';

/** The variables that describe one upstream; a file describes several. */
const ofOneUpstream = [
  'UPSTREAM_BASE_URL',
  'UPSTREAM_API_KEY',
  'UPSTREAM_NAME',
  'UPSTREAM_INCLUDE_USAGE',
  'UPSTREAM_MASK_ERRORS',
  'UPSTREAM_MAX_CONCURRENCY',
] as const;

/**
 * The upstreams that the environment names, itself or in a file.
 * @throws GatewayError `invalid_options`; `param` is the variable
 */
export function upstreamsOf(settings: Settings, env: Environment): readonly UpstreamOptions[] | undefined {
  const { UPSTREAM_BASE_URL: baseUrl, UPSTREAM_API_KEY: apiKey } = settings;
  if (settings.UPSTREAMS_FILE) {
    const other = ofOneUpstream.find((variable) => settings[variable] !== undefined);
    if (other) refuseOption('UPSTREAMS_FILE', `is set together with ${other}; put that upstream into the file`);
    return readUpstreamsFile(settings.UPSTREAMS_FILE, env);
  }
  const {
    UPSTREAM_INCLUDE_USAGE: includeUsage,
    UPSTREAM_MASK_ERRORS: maskErrors,
    UPSTREAM_MAX_CONCURRENCY: maxConcurrency,
  } = settings;
  if (baseUrl) {
    const name = settingOf(settings, 'UPSTREAM_NAME');
    return [{ name, baseUrl, ...omitUndefined({ apiKey, includeUsage, maskErrors, maxConcurrency }) }];
  }
  if (apiKey) refuseOption('UPSTREAM_API_KEY', 'is set without UPSTREAM_BASE_URL, so nothing would use it; set both');
  return undefined;
}

function pathlessUpstreams(upstreams: readonly UpstreamOptions[] = []): string[] {
  return upstreams
    .map(({ name, baseUrl }) => ({ name, url: new URL(baseUrl) }))
    .filter(({ url }) => url.pathname === '/')
    .map(
      ({ name, url }) =>
        `${url.origin} of the upstream '${name}' has no path; the APIs of most providers are under /v1`,
    );
}

/** What is probably a mistake and works nevertheless, in sentences for the operator. */
export function warningsOf(env: Environment, upstreams?: readonly UpstreamOptions[]): string[] {
  return [...misspelled(env), ...pathlessUpstreams(upstreams)];
}
