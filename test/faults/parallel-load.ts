import type { Disturbances } from './verdict/disturbances.ts';

/** What came of the parallel load of a row. */
export interface ParallelLoadVerdict {
  /** Its figures. */
  readonly line: string;
  /** What exactly was not as promised. */
  readonly wrong: readonly string[];
}

/** What was broken in the whole run so far. */
export type DisturbancesSoFar = Pick<Disturbances, 'all' | 'skews' | 'stops'>;

/** A load of its own that runs beside the deliveries in every row, with a ledger of its own. */
export interface ParallelLoad {
  begin(): void;
  /** Resolves when everything that was begun has ended; begins nothing more until it is resumed. */
  pause(): Promise<void>;
  resume(): void;
  /** Resolves when everything that was begun has ended. */
  end(): Promise<void>;
  /** Waits for the database to have it all, and judges. */
  verdict(disturbances: DisturbancesSoFar): Promise<ParallelLoadVerdict>;
}
