import type { OpenUsage } from '../../options/options.ts';

/** What is known of the usage of a response that its upstream makes after the call for it has been answered. */
export interface BackgroundUsage extends OpenUsage {
  /** From the call's arrival to the head of the answer. Milliseconds. */
  readonly firstByteMs: number;
  /** Whether the output can be streamed while it is made. @default false */
  readonly streams?: boolean;
  /** The most output tokens that the request allows. @default no limit */
  readonly maxOutputTokens?: number;
}

/** Whether an upstream works on a response after the call for it has been answered, by the status in that answer. Pure. */
export function runsOn(status: unknown): boolean {
  return status === 'queued' || status === 'in_progress';
}
