import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { scopes } from '../../src/index.ts';
import { run } from '../clients/generated-client.ts';
import { startForClients } from '../clients/live.ts';
import { python, skipWithout } from '../documentation/runtimes.ts';
import { root } from '../package/tarball.ts';
import type { LiveGateway } from '../support/gateway.ts';
import { installedPackages } from '../support/processes/python.ts';

const here = fileURLToPath(new URL('schemathesis/', import.meta.url));

describe('a gateway that Schemathesis calls', function () {
  this.timeout(600_000);
  let live: LiveGateway;
  let folder: string;
  before(async () => {
    live = await startForClients();
    folder = await mkdtemp(join(tmpdir(), 'schemathesis-'));
  });
  after(async () => {
    await live?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('accepts what openapi.yaml allows, refuses what it does not, and answers as it says', async function () {
    skipWithout(this, python);
    const { key } = await live.gateway.keys.create({ userId: 'usr_schemathesis', scopes });
    const env = { ...(await installedPackages(`${here}requirements.txt`)), GATEWAY_API_KEY: key };
    const config = ['--config-file', join(here, 'schemathesis.toml')];
    const program = ['python3', '-m', 'schemathesis.cli', ...config, 'run', join(root, 'openapi.yaml')] as const;
    await run([...program, '--url', live.url], { cwd: folder, env });
    // otherwise each call has been refused alike
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'm', input: 'Hi' });
    const { status } = await fetch(`${live.url}/v1/embeddings`, { method: 'POST', headers, body });
    expect(status).to.equal(200);
  });
});
