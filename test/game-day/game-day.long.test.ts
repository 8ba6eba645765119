import { expect } from 'chai';
import { documentText } from '../documentation/documents.ts';
import { eventually, until } from '../support/until.ts';
import { databaseFailures } from './database-failures.ts';
import type { Failure } from './failure.ts';
import { type Scene, startScene } from './scene.ts';
import { trafficFailures } from './traffic-failures.ts';

const failures = [...databaseFailures, ...trafficFailures];

/** Longer than a value that is well is used, and than the longest wait of a breaker. Milliseconds. */
const longestWait = 60_000;

/** What a machine that is busy for a second sets off, for less than their `for`. */
const ofBusyMachine = ['GatewayEventLoopBlocked', 'GatewayDatabaseSlow'];

/** Whether each of these is found. */
const areAll = (wanted: readonly RegExp[], findings: readonly string[]): boolean =>
  wanted.every((one) => findings.some((finding) => one.test(finding)));

describe('On a game day', function () {
  this.timeout(240_000);
  let scene: Scene;

  before(async () => {
    scene = await startScene();
  });
  after(() => scene?.stop());

  /** Whether nothing tells of a failure. */
  async function tellsNothing(): Promise<boolean> {
    // a breaker closes with a call that connects
    const statuses = [...(await scene.call('one', 'usr_1')), ...(await scene.call('two', 'usr_1'))];
    if (statuses.some((status) => status !== 200)) return false;
    const health = await Promise.all(scene.processes().map(({ readyz }) => readyz()));
    const notWell = health.flatMap(({ checks }) =>
      Object.values(checks).filter((check) => check !== 'ok' && check !== 'off'),
    );
    if (notWell.length > 0 || health.some(({ status }) => status !== 200)) return false;
    await scene.scrape();
    return scene.monitoring.alerts().length === 0;
  }

  async function expectHealthy(): Promise<void> {
    scene.monitoring.forget();
    await until(tellsNothing, longestWait, 'healthy');
    const { findings } = await eventually(scene.doctor, ({ code }) => code === 0, longestWait);
    expect(findings).to.deep.equal([]);
  }

  /** Resolves when metric, probe and alerts tell of it, with all alerts that fired. */
  async function untilTold({
    metric: [written, holds],
    health,
    alerts,
    traffic,
    scraped,
  }: Failure): Promise<Set<string>> {
    const fired = new Set<string>();
    const value = () => scene.monitoring.metric('api', written);
    async function isTold(): Promise<boolean> {
      await traffic?.(scene);
      await scene.scrape(scraped);
      for (const alert of scene.monitoring.alerts()) fired.add(alert);
      const { status, checks } = await scene.api.readyz();
      const expected = Object.entries(health.checks);
      const isProbed = expected.every(([check, result]) => checks[check as keyof typeof checks] === result);
      return holds(value()) && isProbed && status === health.status && alerts.every((one) => fired.has(one));
    }
    await until(isTold, longestWait, written);
    return fired;
  }

  it('docs/on-call.md says of each of the twelve failures which alert, metric, probe and check of doctor tell of it', () => {
    const names = failures.map(({ name }) => name.split(':')[0]);
    expect(names).to.have.lengthOf(12);
    const page = documentText('docs/on-call.md');
    for (const name of names)
      expect(page).to.match(new RegExp(`^\\| ${name} \\| \\[Gateway[^|]*\\|(?: [^| ][^|]*\\|){3}$`, 'm'));
  });

  for (const failure of failures) {
    it(`metrics, probes, alerts and doctor report: ${failure.name}`, async function () {
      if (failure.isPossible?.(scene) === false) this.skip();
      await expectHealthy();
      scene.monitoring.forget();
      await scene.scrape();
      const [written, tells] = failure.metric;
      expect(tells(scene.monitoring.metric('api', written)), `${written} while all is well`).to.equal(false);
      const heal = await failure.inject(scene);
      try {
        const fired = await untilTold(failure);
        const { doctor, alerts, also = [], health } = failure;
        expect([...alerts, ...also, ...ofBusyMachine]).to.include.members([...fired]);
        const { checks: _, ...named } = health;
        expect(await scene.api.readyz()).to.deep.include(named);
        const { code } = await eventually(
          scene.doctor,
          ({ findings }) => areAll(doctor.findings, findings),
          longestWait,
        );
        expect(code).to.equal(doctor.code);
      } finally {
        await heal();
      }
      await expectHealthy();
    });
  }
});
