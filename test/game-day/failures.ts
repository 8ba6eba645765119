import { expect } from 'chai';
import { command } from '../cli/recorded-terminal.ts';
import { newSecretKey } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import type { Scene } from './scene.ts';

/** What ends a failure. */
type Heal = () => unknown;

/** One failure, and where it is told. */
export interface Failure {
  readonly name: string;
  /** Whether this machine can be made to fail so. @default it can */
  readonly isPossible?: (scene: Scene) => boolean;
  readonly inject: (scene: Scene) => Promise<Heal>;
  /** What customers do meanwhile, before each scrape. @default nothing */
  readonly traffic?: (scene: Scene) => Promise<unknown>;
  /** A metric of the API process as it is written, and what holds for its value. */
  readonly metric: readonly [written: string, holds: (value: number | undefined) => boolean];
  /** What `/readyz` of the process that serves the API answers. @default 200 and nothing but what is well */
  readonly health?: { readonly status: 200 | 503; readonly [field: string]: unknown };
  /** The alert that names it. */
  readonly alerts: readonly string[];
  /** Alerts that it sets off too, sooner or later. @default none */
  readonly also?: readonly string[];
  /** What `doctor` says, and the exit status. */
  readonly doctor: { readonly code: 1 | 2; readonly finding: RegExp };
  /** What else Prometheus scrapes, given what the API process shows. */
  readonly scraped?: (text: string) => string;
}

const minutes = 60_000;

/** Moves the time from which something may be claimed back, as if it had been due for ten minutes: nobody waits for that here. */
async function makeOld({ database }: Scene, collection: string, field: string, filter: object): Promise<number> {
  const back = [{ $set: { [field]: { $subtract: ['$$NOW', 10 * minutes] } } }];
  const { matchedCount } = await database.collection(`gateway_${collection}`).updateMany(filter, back);
  return matchedCount;
}

const ofDatabase: readonly Failure[] = [
  {
    name: 'no primary: two of three members are gone',
    async inject({ members }) {
      const down = members.nodes.slice(0, 2);
      await Promise.all(down.map((node) => node.kill()));
      return () => Promise.all(down.map((node) => node.start()));
    },
    metric: ['gateway_database_available', (value) => value === 0],
    health: { status: 503, checks: { database: 'failed' } },
    alerts: ['GatewayDatabaseUnavailable'],
    also: ['GatewayWorkerStopped'],
    doctor: { code: 2, finding: /^failed database: mongo: the database cannot be reached/ },
  },
  {
    // a disk that is slow cannot be had here: mongod's journal is not flushed while the failpoint is on, as if its disk took as long
    name: 'slow disk: the journals are not flushed',
    async inject({ members }) {
      const failpoint = (mode: string) =>
        members.command({ configureFailPoint: 'pauseJournalFlusherBeforeFlush', mode });
      await failpoint('alwaysOn');
      return () => failpoint('off');
    },
    metric: ['gateway_database_write_seconds', (value = 0) => value > 1],
    health: { status: 200, checks: { writes: 'degraded', database: 'ok' } },
    alerts: ['GatewayDatabaseSlow'],
    also: ['GatewayWorkerStopped', 'GatewayDeliveriesLate'],
    doctor: { code: 2, finding: /^failed writes: a majority takes \d+\.\d\d s to have a write in its journal/ },
  },
  {
    name: 'disk full: less than a twentieth is free',
    isPossible: ({ members }) => members.disk.canFill,
    inject: ({ members }) => members.disk.fill(0.04),
    metric: ['gateway_database_disk_free_ratio', (value = 1) => value < 0.05],
    health: { status: 200, checks: { disk: 'degraded' } },
    alerts: ['GatewayDiskFull'],
    doctor: { code: 2, finding: /^failed disk: [34] % of the primary's disk is free/ },
  },
  {
    name: 'missing index: somebody has dropped a unique one',
    async inject({ database, env }) {
      await database.collection('gateway_events').dropIndex('idempotency');
      return () => command(['migrate'], { env });
    },
    metric: ['gateway_health{check="indexes"}', (value) => value === 0],
    health: { status: 503, checks: { indexes: 'failed' }, missingIndexes: ['gateway_events.idempotency'] },
    alerts: ['GatewayIndexMissing'],
    doctor: { code: 2, finding: /^failed indexes: gateway_events\.idempotency is missing/ },
  },
  {
    // setting this machine's clock would do it to all that runs on it: this process is told another time
    name: 'clock off: this machine is a minute ahead of the database',
    async inject() {
      const { now } = Date;
      Date.now = () => now() + minutes;
      return () => {
        Date.now = now;
      };
    },
    metric: ['gateway_clock_skew_seconds', (value = 0) => value > 59 && value < 62],
    health: { status: 503, checks: { clock: 'failed' } },
    alerts: ['GatewayClockOff'],
    doctor: { code: 2, finding: /^failed clock: this machine is (59|60|61)\.\d s ahead of the database/ },
  },
  {
    name: 'key missing: another process seals with a key that this one does not have',
    async inject({ startOther, key }) {
      const other = await startOther([newSecretKey('k2'), key]);
      const { id } = await other.gateway.webhooks.create('usr_2', {
        url: 'https://example.com/',
        events: ['credits.low'],
      });
      return async () => {
        await other.gateway.webhooks.remove('usr_2', id);
        await other.stop();
      };
    },
    metric: ['gateway_health{check="sealingKeys"}', (value) => value === 0],
    health: { status: 200, checks: { sealingKeys: 'degraded' }, missingKeys: ['k2'] },
    alerts: ['GatewaySealingKeyMissing'],
    doctor: {
      code: 2,
      finding: /^failed sealing keys: secrets are sealed with the key 'k2', which is not in SECRET_KEYS/,
    },
  },
  {
    // there is no newer release yet: its record is written for it, and what a process of another release shows is made from what this one shows
    name: 'version mismatch: a newer version has prepared the database, and runs beside this one',
    async inject({ database }) {
      const schema = database.collection<{ _id: string }>('gateway_schema');
      const before = await schema.findOne({ _id: 'schema' });
      await schema.updateOne({ _id: 'schema' }, { $set: { version: 9, compatibleFrom: 9, packageVersion: '9.0.0' } });
      return () => schema.replaceOne({ _id: 'schema' }, before ?? {});
    },
    scraped: (text) =>
      text
        .split('\n')
        .filter((line) => line.startsWith('gateway_build_info'))
        .join('\n')
        .replace(/"[^"]*"/, '"9.0.0"'),
    metric: ['gateway_health{check="schema"}', (value) => value === 0],
    health: { status: 503, checks: { schema: 'failed' } },
    alerts: ['GatewaySchemaNewer', 'GatewayVersionsDiffer'],
    doctor: { code: 2, finding: /^failed schema version: express-model-gateway 9\.0\.0 has prepared the database/ },
  },
];

const ofTraffic: readonly Failure[] = [
  {
    name: 'worker gone: the only one has ended, and events wait for it',
    async inject(scene) {
      await scene.stopWorker();
      await scene.publish();
      expect(await makeOld(scene, 'events', 'fanOutAt', { fanOut: 'pending' })).to.equal(1);
      return scene.startWorker;
    },
    metric: ['gateway_worker_live', (value) => value === 0],
    alerts: ['GatewayWorkerStopped', 'GatewayDeliveriesLate'],
    doctor: { code: 2, finding: /^failed fan-outs: 1 events wait for their deliveries, the oldest for 6\d\d s/ },
  },
  {
    name: 'backlog old: deliveries are due, and the worker has no room for them',
    async inject(scene) {
      const { receiver, publish, database } = scene;
      receiver.hang();
      for (let i = 0; i < 6; i += 1) await publish();
      const waiting = { state: 'pending', lease: null };
      await until(async () => (await database.collection('gateway_deliveries').countDocuments(waiting)) >= 4);
      expect(await makeOld(scene, 'deliveries', 'claimableAt', waiting)).to.be.at.least(4);
      return receiver.answer;
    },
    metric: ['gateway_deliveries_oldest_due_seconds', (value = 0) => value > 300],
    alerts: ['GatewayDeliveriesLate'],
    also: ['GatewayAttemptsFailing'],
    doctor: { code: 2, finding: /^failed deliveries: \d deliveries are due and not claimed, the oldest for 6\d\d s/ },
  },
  {
    name: 'hanging upstream: it accepts calls and answers none',
    async inject({ one, call }) {
      one.hang();
      const calls = call('one', 'usr_hang', 6);
      return async () => {
        one.answer();
        await calls;
      };
    },
    metric: ['gateway_upstream_failures_total{upstream="one",code="timeout"}', (value = 0) => value >= 6],
    alerts: ['GatewayUpstreamHanging'],
    also: ['GatewayUpstreamFailing'],
    doctor: { code: 2, finding: /^failed upstreams: one \(.*\): timeout/ },
  },
  {
    name: 'breaker open: an upstream refuses connections',
    async inject({ two }) {
      await two.stop();
      return two.start;
    },
    traffic: ({ call }) => call('two', 'usr_breaker', 3),
    metric: ['gateway_upstream_breaker_open{upstream="two"}', (value) => value === 1],
    health: { status: 200, checks: { upstreams: 'degraded' }, openBreakers: ['two'] },
    alerts: ['GatewayBreakerOpen'],
    also: ['GatewayUpstreamFailing'],
    doctor: { code: 2, finding: /^failed upstreams: two \(.*\): connect_refused/ },
  },
  {
    name: 'DNS down: the name server does not answer',
    async inject({ names, one, publish }) {
      names.hang();
      // a connection that is open needs no name
      one.answer();
      await publish();
      return names.answer;
    },
    traffic: ({ call }) => call('one', 'usr_dns', 2),
    metric: ['gateway_upstream_failures_total{upstream="one",code="dns_failed"}', (value = 0) => value >= 5],
    health: { status: 200, checks: { upstreams: 'degraded' }, openBreakers: ['one'] },
    alerts: ['GatewayDnsFailing'],
    also: ['GatewayUpstreamFailing', 'GatewayBreakerOpen', 'GatewayAttemptsFailing'],
    doctor: { code: 2, finding: /^failed upstreams: one \(.*\): dns_failed/ },
  },
];

/** The twelve. */
export const failures: readonly Failure[] = [...ofDatabase, ...ofTraffic];
