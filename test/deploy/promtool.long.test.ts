import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { root } from '../package/tarball.ts';

const run = promisify(execFile);

/** What Prometheus' own tool says. Rejects with it where it refuses. */
async function promtool(...args: string[]): Promise<string> {
  const { stdout } = await run('promtool', args, { cwd: root });
  return stdout;
}

describe('promtool', () => {
  before(async function () {
    const isThere = await promtool('--version').then(
      () => true,
      () => false,
    );
    if (isThere) return;
    if (process.env.CI) expect.fail('promtool is missing: .ci/run unpacks it from the package prometheus');
    this.skip();
  });

  it('takes the rules, and the scrape configuration that names them', async () => {
    expect(await promtool('check', 'rules', '--lint-fatal', 'deploy/prometheus-rules.yaml')).to.match(
      /\d\d rules found/,
    );
    expect(await promtool('check', 'config', 'deploy/prometheus.yaml')).to.include('1 rule files found');
  });

  it('finds that alerts fire when they should, and not otherwise', async () => {
    expect(await promtool('test', 'rules', 'test/deploy/alerts.yaml')).to.include('SUCCESS');
  });
});
