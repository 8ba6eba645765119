import { readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { keptFolder, run } from '../clients/generated-client.ts';
import { root } from '../package/tarball.ts';

const here = fileURLToPath(new URL('spectral/', import.meta.url));

/** Installs Spectral once for each lock file: it is too large for a dependency of this project. */
function installedSpectral(): Promise<string> {
  return keptFolder('spectral', readFileSync(join(here, 'package-lock.json'), 'utf8'), async (folder) => {
    await cp(here, folder, { recursive: true });
    await run(['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: folder });
  });
}

describe('openapi.yaml', function () {
  this.timeout(300_000);

  it('passes the rules of Spectral', async () => {
    const program = join(await installedSpectral(), 'node_modules/.bin/spectral');
    const { stdout } = await run([program, 'lint', 'openapi.yaml', '--fail-severity', 'hint'], { cwd: root });
    expect(stdout).to.equal("No results with a severity of 'hint' or higher found!\n");
  });
});
