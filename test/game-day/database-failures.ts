import { command } from '../cli/recorded-terminal.ts';
import { newSecretKey } from '../support/gateway.ts';
import type { Failure } from './failure.ts';

const minute = 60_000;

/** What fails about the database, and between it and a process. */
export const databaseFailures: readonly Failure[] = [
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
    doctor: {
      code: 2,
      findings: [/^failed database: MONGODB_URI: the database cannot be reached: the replica set has no primary/],
    },
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
    doctor: { code: 2, findings: [/^failed writes: a majority takes \d+\.\d\d s to have a write in its journal/] },
  },
  {
    name: 'disk full: less than a twentieth is free',
    isPossible: ({ members }) => members.disk.canFill,
    inject: ({ members }) => members.disk.fill(0.04),
    metric: ['gateway_database_disk_free_ratio', (value = 1) => value < 0.05],
    health: { status: 200, checks: { disk: 'degraded' } },
    alerts: ['GatewayDiskFull'],
    doctor: { code: 2, findings: [/^failed disk: [34] % of the primary's disk is free/] },
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
    doctor: { code: 2, findings: [/^failed indexes: gateway_events\.idempotency is missing/] },
  },
  {
    // setting this machine's clock would do it to all that runs on it: this process is told another time
    name: 'clock off: this machine is a minute ahead of the database',
    async inject() {
      const { now } = Date;
      Date.now = () => now() + minute;
      return () => {
        Date.now = now;
      };
    },
    metric: ['gateway_clock_skew_seconds', (value = 0) => value > 59 && value < 62],
    health: { status: 503, checks: { clock: 'failed' } },
    alerts: ['GatewayClockOff'],
    doctor: {
      code: 2,
      findings: [/^failed clock: this machine is (59|60|61)\.\d s ahead of the database/],
    },
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
      findings: [/^failed sealing keys: secrets are sealed with the key 'k2', which is not in SECRET_KEYS/],
    },
  },
  {
    // there is no newer release yet: its record is written for it, and what it would show is made from what this one shows
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
    doctor: {
      code: 2,
      findings: [/^failed schema version: express-model-gateway 9\.0\.0 has prepared the database/],
    },
  },
];
