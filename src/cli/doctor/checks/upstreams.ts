import { createDispatcher, createHttpClient } from '../../../outbound/client.ts';
import { OutboundError } from '../../../outbound/outbound-error.ts';
import { type CheckContext, failed, ok, type Result, skipped, warning } from '../check.ts';

/** Milliseconds. */
const [connectTimeout, longestCall] = [5_000, 10_000] as const;

const remedies: Readonly<Record<string, string>> = {
  dns_failed: 'check the host name, and the name servers of this machine (/etc/resolv.conf)',
  connect_refused: 'check the port, and whether the provider runs there',
  connect_timeout: 'if it is yours, restart it if it hangs; otherwise check the firewall and the routes to it',
  connect_failed: 'check the firewall and the routes to it',
  tls_failed: "check its certificate and this machine's clock; a CA of your own is trusted through NODE_EXTRA_CA_CERTS",
  timeout: "look at the provider's status page",
};

type Upstream = NonNullable<CheckContext['settings']['upstreams']>[number];

function modelsUrl(baseUrl: string): string {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/models`;
  return url.href;
}

async function checkUpstream({ name, baseUrl, apiKey, headers = {} }: Upstream): Promise<Result> {
  const dispatcher = createDispatcher({ connectTimeout });
  const { origin } = new URL(baseUrl);
  try {
    const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    const own = Object.fromEntries(Object.entries(headers).map(([key, value]) => [key.toLowerCase(), value]));
    const { status, data } = await createHttpClient(dispatcher).request({
      url: modelsUrl(baseUrl),
      headers: { accept: 'application/json', ...authorization, ...own },
      signal: AbortSignal.timeout(longestCall),
    });
    data.destroy();
    const answer = `${name} (${origin}) answers ${status} to a list of its models`;
    if (status === 401 || status === 403) return failed(answer, 'check its API key');
    if (status >= 500) return warning(answer, "look at the provider's status page");
    return ok(answer);
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    const message = `${name} (${origin}): ${error.code}, ${error.message}`;
    return failed(message, remedies[error.code] ?? 'look at the network between this machine and the provider');
  } finally {
    await dispatcher.destroy();
  }
}

/** Whether this machine resolves and reaches each upstream, which is asked for its models. */
export async function checkUpstreams({ settings }: CheckContext): Promise<readonly Result[]> {
  const { upstreams } = settings;
  if (!upstreams) return [skipped('neither UPSTREAM_BASE_URL nor UPSTREAMS_FILE is set')];
  return Promise.all(upstreams.map(checkUpstream));
}
