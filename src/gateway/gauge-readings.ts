import { poolUsage } from '../mongo/connection/connection.ts';
import { withTimeout } from '../mongo/periodic.ts';
import type { GaugeReadings } from '../operator/gauges.ts';
import type { CheckHealth } from './health/gateway-health.ts';
import type { OpenDatabase, Services } from './services.ts';

export interface GaugeReadingsDeps {
  readonly services: Pick<Services, 'backlog' | 'deliveries' | 'proxy'>;
  readonly database: Pick<OpenDatabase, 'access' | 'connection'>;
  readonly checkHealth: CheckHealth;
}

/** How long the database may take to say how large the backlog is. Milliseconds. */
const backlogTimeout = 1_000;

/** Makes the function that reads what the gauges show at this moment. */
export function createGaugeReadings({ services, database, checkHealth }: GaugeReadingsDeps): () => GaugeReadings {
  const { backlog, deliveries, proxy } = services;
  const { access, connection } = database;

  return () => ({
    attempts: deliveries.scheduler.attempts,
    upstreams: proxy.states(),
    databaseAvailable: !access.isUnavailable,
    pool: poolUsage(connection.getClient()),
    workerLive: deliveries.due.isLive,
    async health() {
      const { health, readings } = await checkHealth();
      return { checks: health.checks, ...readings };
    },
    backlog: () =>
      access.isUnavailable
        ? Promise.resolve(undefined)
        : withTimeout(backlog.size(), backlogTimeout, false).catch(() => undefined),
  });
}
