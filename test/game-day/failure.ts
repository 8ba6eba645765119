import type { GatewayHealth } from '../../src/index.ts';
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
  /** What `/readyz` of the process that serves the API answers. */
  readonly health: {
    readonly status: 200 | 503;
    readonly checks: Partial<GatewayHealth['checks']>;
    /** What else it names. */
    readonly [field: string]: unknown;
  };
  /** The alert that names it. */
  readonly alerts: readonly string[];
  /** Alerts that it sets off too, sooner or later. @default none */
  readonly also?: readonly string[];
  /** What `doctor` says, and the exit status. */
  readonly doctor: { readonly code: 1 | 2; readonly findings: readonly RegExp[] };
  /** What else Prometheus scrapes, given what the API process shows. */
  readonly scraped?: (text: string) => string;
}
