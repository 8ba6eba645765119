import { createOperationsListener } from '../../../src/cli/server/http-server.ts';
import type { ModelGateway } from '../../../src/index.ts';
import { command } from '../../cli/recorded-terminal.ts';
import { listen } from '../../support/listen.ts';
import { databasePassword, oldSealingKey, sealingKey, upstreamKey } from './canaries.ts';
import type { LeakScanner } from './leak-scanner.ts';

/** A gateway, where it listens, and what it works with. */
interface Installation {
  readonly gateway: ModelGateway;
  readonly url: string;
  readonly mongoUri: string;
  readonly upstreamUrl: string;
  /** Ids of things that exist. */
  readonly ids: readonly string[];
}

/** Shows the scanner all that an operator can ask for: the scope `admin` over HTTP, the probes, the metrics and `doctor`. */
export async function showOperatorViews(scanner: LeakScanner, installation: Installation): Promise<void> {
  const { gateway, url, mongoUri, upstreamUrl, ids } = installation;
  const { key } = await gateway.keys.create({ userId: 'usr_operator', scopes: ['admin'] });

  async function show(where: string, address: string): Promise<void> {
    const response = await fetch(address, { headers: { authorization: `Bearer ${key}` } });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${address} answers ${response.status}: ${text}`);
    scanner.saw(where, [...response.headers]);
    scanner.saw(where, text);
  }

  const views = ['accounts', 'accounts/usr_1', 'webhooks', 'refusals', 'processes', 'upstreams', 'backlog'];
  const searches = ids.map((id) => `search?id=${encodeURIComponent(id)}`);
  for (const view of [...views, ...searches]) await show('operator', `${url}/v1/admin/${view}`);

  const operations = await listen(createOperationsListener(gateway));
  await show('probes', `${operations.url}/readyz`);
  await show('metrics', `${operations.url}/metrics`);
  await operations.close();

  const env = {
    MONGODB_URI: mongoUri,
    SECRET_KEYS: `k1:${sealingKey},k0:${oldSealingKey}`,
    UPSTREAM_BASE_URL: upstreamUrl,
    UPSTREAM_API_KEY: upstreamKey,
  };
  const unreachable = `mongodb://gateway:${databasePassword}@127.0.0.1:1/gateway?serverSelectionTimeoutMS=200`;
  for (const changed of [
    {},
    { UPSTREAM_BASE_URL: 'http://127.0.0.1:1/v1' },
    { MONGODB_URI: unreachable },
    { MONGODB_URI: unreachable.replace('mongodb:', 'mongo:') },
    { SECRET_KEYS: `k1:${sealingKey},k1:${oldSealingKey}` },
    { SECRET_KEYS: sealingKey },
  ]) {
    for (const form of [[], ['--json']]) {
      const { code, stdout, stderr } = await command(['doctor', ...form], { env: { ...env, ...changed } });
      scanner.saw('doctor', `${code}\n${stdout}\n${stderr}`);
    }
  }
}
