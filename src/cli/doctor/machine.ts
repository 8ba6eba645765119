import { isAllowedAddress, parseNetworks } from '../../outbound/addresses.ts';
import { createDispatcher, createHttpClient } from '../../outbound/client.ts';
import { proxyOrigin } from '../../outbound/connector.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { readVersion } from '../../version.ts';
import {
  applicable,
  type CheckContext,
  type DatabaseContext,
  failed,
  ok,
  problemsOr,
  type Result,
  skipped,
  warning,
} from './check.ts';

/** What is set, and is probably a mistake. What a gateway refuses is found before any check. */
export async function checkConfiguration({ settings }: CheckContext): Promise<readonly Result[]> {
  const problems = settings.warnings.map((message) => warning(message, 'correct it, unless it is meant so'));
  return problemsOr(problems, 'start refuses none of the variables that are set');
}

const oldestNode = [20, 19] as const;
/** The tests run on this and newer versions. */
const oldestMongod = [6, 0] as const;

function isOlderVersion(version: string, [major, minor]: readonly [number, number]): boolean {
  const [a = 0, b = 0] = version.replace(/^v/, '').split('.').map(Number);
  return a < major || (a === major && b < minor);
}

/** Node and the package itself. */
export async function checkNode(): Promise<readonly Result[]> {
  if (isOlderVersion(process.version, oldestNode)) {
    return [warning(`Node ${process.version} is older than ${oldestNode.join('.')}`, 'update Node')];
  }
  return [ok(`express-model-gateway ${readVersion()}, Node ${process.version}`)];
}

export async function checkMongoVersions({ admin, connection }: DatabaseContext): Promise<readonly Result[]> {
  const { version } = await admin.command({ buildInfo: 1 });
  if (isOlderVersion(version, oldestMongod)) {
    const message = `mongod ${version} is older than ${oldestMongod.join('.')}, the oldest that is tested`;
    return [warning(message, 'update MongoDB')];
  }
  return [ok(`mongod ${version}, mongoose ${connection.base.version}`)];
}

/** Milliseconds. */
const [connectTimeout, longestCall] = [5_000, 10_000] as const;

const remedies: Readonly<Record<string, string>> = {
  dns_failed: 'check the host name, and the name servers of this machine (/etc/resolv.conf)',
  connect_refused: 'check the port, and whether the provider runs there',
  connect_timeout: 'if it is yours, restart it if it hangs; otherwise check the firewall and the routes to it',
  connect_failed: 'check the firewall and the routes to it',
  tls_failed: "check its certificate and this machine's clock; a CA of your own is trusted through NODE_EXTRA_CA_CERTS",
  timeout: "look at the provider's status page",
  proxy_unreachable:
    'check the address of the proxy (HTTPS_PROXY, HTTP_PROXY), and whether it runs; NO_PROXY names hosts that need none',
  proxy_refused: 'check the credentials of the proxy, and that it allows CONNECT to this host and port',
};

type Upstream = NonNullable<CheckContext['settings']['upstreams']>[number];

/** Asks a server once, and reads no body. @returns the status of its answer, or why there is none */
async function ask(
  url: string,
  { headers, proxy }: { readonly headers: Readonly<Record<string, string>>; readonly proxy?: string | undefined },
): Promise<number | OutboundError> {
  const dispatcher = createDispatcher({ connectTimeout, proxy });
  try {
    const request = { url, headers, signal: AbortSignal.timeout(longestCall) };
    const { status, data } = await createHttpClient(dispatcher).request(request);
    data.destroy();
    return status;
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return error;
  } finally {
    await dispatcher.destroy();
  }
}

async function checkUpstream({ name, baseUrl, apiKey, headers = {}, proxy }: Upstream): Promise<Result> {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/models`;
  const { origin, href } = url;
  const place = proxy ? `${origin}, through ${proxyOrigin(proxy)}` : origin;
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const own = Object.fromEntries(Object.entries(headers).map(([key, value]) => [key.toLowerCase(), value]));
  const result = await ask(href, {
    headers: { accept: 'application/json', ...authorization, ...own },
    proxy: proxy || undefined,
  });
  if (typeof result !== 'number') {
    const message = `${name} (${place}): ${result.code}, ${result.message}`;
    return failed(message, remedies[result.code] ?? 'look at the network between this machine and the provider');
  }
  const answer = `${name} (${place}) answers ${result} to a list of its models`;
  if (result === 401 || result === 403) return failed(answer, 'check its API key');
  if (result >= 500) return warning(answer, "look at the provider's status page");
  return ok(answer);
}

/** Whether this machine resolves and reaches each upstream, by its proxy where it has one, which is asked for its models. */
export async function diagnoseUpstreams({ settings }: CheckContext): Promise<readonly Result[]> {
  const { upstreams } = settings;
  if (!upstreams) return [skipped('neither UPSTREAM_BASE_URL nor UPSTREAMS_FILE is set')];
  return Promise.all(upstreams.map(checkUpstream));
}

/** Addresses of the cloud's metadata service, which hands out the machine's credentials. */
const metadataServices = ['169.254.169.254', 'fd00:ec2::254', '168.63.129.16'];
const loopback = ['127.0.0.1', '::1'];

export async function checkAddressGuard({ settings }: CheckContext): Promise<readonly Result[]> {
  const { allowHttp, allowPrivateNetworks, isOnTrial } = settings;
  const networks = parseNetworks(allowPrivateNetworks);
  const mayReach = (addresses: readonly string[]) => addresses.some((address) => isAllowedAddress(address, networks));
  const list = allowPrivateNetworks.join(', ');
  const problems = applicable(
    [
      mayReach(metadataServices),
      failed(`webhooks may reach the metadata service of the cloud (${list})`, 'narrow ALLOW_PRIVATE_NETWORKS'),
    ],
    [
      mayReach(loopback) && !isOnTrial,
      warning(`webhooks may reach this machine itself (${list})`, 'take loopback out of ALLOW_PRIVATE_NETWORKS'),
    ],
    [allowHttp && !isOnTrial, warning('webhooks may be plain http', 'set ALLOW_HTTP=false')],
  );
  const schemes = allowHttp ? 'http or https' : 'https';
  const webhookProxy = settings.options.deliveries?.proxy;
  if (webhookProxy !== undefined) {
    const place = proxyOrigin(webhookProxy);
    // without its credentials, and for nothing behind it
    const result = await ask(`${place}/`, { headers: {} });
    if (typeof result !== 'number')
      problems.push(
        failed(`the proxy ${place} of webhooks: ${result.code}`, 'check WEBHOOK_PROXY, and whether it runs'),
      );
    const message = `webhooks may be ${schemes}; the proxy ${place} decides which addresses they may reach`;
    return problemsOr(problems, message);
  }
  return problemsOr(problems, `webhooks may reach public addresses by ${schemes}${list ? `, and ${list}` : ''}`);
}
