import type { Connection } from 'mongoose';
import type { Logger } from '../../options/options.ts';
import { createPeriodic, type Periodic } from '../periodic.ts';
import { createForgottenCommands } from './forgotten-commands.ts';

/** How long the database may be lost before it counts as down: many elections are over by then. Milliseconds. */
const grace = 1_000;
/** How often the driver looks for a server while there is none. Milliseconds. */
const probeInterval = 500;
/** How long one such look may take: longer than any driver looks for a server. Milliseconds. */
const longestProbe = 60_000;

type Client = ReturnType<Connection['getClient']>;

interface TopologyChange {
  readonly newDescription: { readonly servers: ReadonlyMap<string, { readonly isWritable: boolean }> };
}

/** Makes the driver look for a server at once: it does so only while a command waits, otherwise every `heartbeatFrequencyMS`. */
async function probe(client: Client): Promise<void> {
  await client
    .db('admin')
    .command({ ping: 1 })
    .catch(() => {});
}

/** Learns from the driver's monitoring whether a server takes writes. */
export class DatabaseMonitor {
  readonly #client: Client;
  readonly #logger: Pick<Logger, 'warn' | 'info'>;
  readonly #probing: Periodic;
  readonly #forgotten: Periodic;
  readonly #downListeners = new Set<() => void>();
  #lostAt: number | undefined;
  #isDown = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: Client, logger: Pick<Logger, 'warn' | 'info'>) {
    this.#client = client;
    this.#logger = logger;
    this.#probing = createPeriodic({
      name: 'looking for the database',
      task: () => probe(client),
      interval: probeInterval,
      longestRun: longestProbe,
      logger,
    });
    this.#forgotten = createForgottenCommands(client, logger);
    this.#forgotten.start();
    client.on('topologyDescriptionChanged', this.#onChange);
  }

  /** Whether the driver knows no server that takes writes. */
  get isLost(): boolean {
    return this.#lostAt !== undefined;
  }

  /** Whether there has been no such server for a second. */
  get isDown(): boolean {
    return this.#isDown;
  }

  /** Calls the listener when the database goes down. */
  addDownListener(listener: () => void): void {
    this.#downListeners.add(listener);
  }

  removeDownListener(listener: () => void): void {
    this.#downListeners.delete(listener);
  }

  /** Stops listening to the driver. */
  close(): void {
    clearTimeout(this.#timer);
    this.#isDown = false;
    this.#client.off('topologyDescriptionChanged', this.#onChange);
    void this.#probing.stop();
    void this.#forgotten.stop();
  }

  readonly #onChange = ({ newDescription }: TopologyChange): void => {
    const isWritable = [...newDescription.servers.values()].some((server) => server.isWritable);
    if (isWritable === !this.isLost) return;
    clearTimeout(this.#timer);
    if (isWritable) this.#onFound();
    else {
      this.#lostAt = performance.now();
      this.#timer = setTimeout(() => this.#onDown(), grace).unref();
    }
  };

  #onDown(): void {
    this.#isDown = true;
    this.#logger.warn('the database is unavailable; requests that need it are answered 503');
    for (const listener of this.#downListeners) listener();
    this.#probing.start();
  }

  #onFound(): void {
    const afterMs = Math.round(performance.now() - Number(this.#lostAt));
    if (this.#isDown) this.#logger.info('the database is available again', { afterMs });
    this.#lostAt = undefined;
    this.#isDown = false;
    void this.#probing.stop();
  }
}
