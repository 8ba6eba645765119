import type { Connection } from 'mongoose';
import type { Models } from '../../gateway/collections.ts';
import type { databaseOf } from '../../mongo/collection.ts';
import type { Configuration } from '../config/config.ts';

type Db = ReturnType<typeof databaseOf>;

/** `skipped`: what the check needs is not set. */
export type Status = 'ok' | 'warning' | 'failed' | 'skipped';

export interface Result {
  readonly status: Status;
  /** What is so, or what is wrong. */
  readonly message: string;
  readonly remedy?: string;
}

export interface CheckContext {
  readonly settings: Configuration;
  /** This process's clock. Milliseconds since 1970. */
  readonly now: () => number;
}

/** What the checks of the database read. None of them writes. */
export interface DatabaseContext extends CheckContext {
  readonly connection: Connection;
  /** Read from the primary. */
  readonly db: Db;
  readonly admin: Db;
  readonly models: Models;
  /** What stands before the names of collections. */
  readonly prefix: string;
}

/** Checks by the names that people see. Each finds one thing or several. */
export type Checks<Context> = Readonly<Record<string, (context: Context) => Promise<readonly Result[]>>>;

export const ok = (message: string): Result => ({ status: 'ok', message });
export const warning = (message: string, remedy: string): Result => ({ status: 'warning', message, remedy });
export const failed = (message: string, remedy: string): Result => ({ status: 'failed', message, remedy });
export const skipped = (message: string): Result => ({ status: 'skipped', message });

/** The problems, or that there is none. */
export function problemsOr(problems: readonly Result[], message: string): readonly Result[] {
  return problems.length > 0 ? problems : [ok(message)];
}

/** Of these results, those that hold. */
export function applicable(...judged: readonly (readonly [isSo: boolean, result: Result])[]): Result[] {
  return judged.filter(([isSo]) => isSo).map(([, result]) => result);
}
