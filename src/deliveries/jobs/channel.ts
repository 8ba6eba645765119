import { InMemoryNotificationChannel, type JobNotification } from 'agenda';

/** The longest time that a timer can wait. Milliseconds. */
const longestTimer = 2 ** 31 - 1;

/** How long after their time the jobs of a name run; jobs of other names run at their time. Milliseconds. */
export type RunDelays = Readonly<Record<string, number>>;

interface DueTimer {
  readonly at: number;
  readonly timer: NodeJS.Timeout;
}

/**
 * Tells Agenda of a job when it should run by this process's clock, never before. Of the jobs of one name it keeps the earliest:
 * Agenda looks for that job then, and hears of the next one.
 */
export class DueChannel extends InMemoryNotificationChannel {
  readonly #timers = new Map<string, DueTimer>();
  readonly #delays: RunDelays;

  constructor(delays: RunDelays = {}) {
    super();
    this.#delays = delays;
  }

  /** Never rejects. */
  override async publish(notification: JobNotification): Promise<void> {
    if (this.state !== 'connected') return;
    const { jobName, nextRunAt } = notification;
    const at = Number(nextRunAt) + (this.#delays[jobName] ?? 0);
    const wait = at - Date.now();
    if (wait <= 0) return super.publish(notification);
    const earlier = this.#timers.get(jobName);
    if (earlier && earlier.at <= at) return;
    clearTimeout(earlier?.timer);
    const timer = setTimeout(
      () => {
        this.#timers.delete(jobName);
        // a timer counts from the start of the event loop's turn it was set in, so it can fire early
        void this.publish(notification);
      },
      Math.min(wait, longestTimer),
    );
    this.#timers.set(jobName, { at, timer: timer.unref() });
  }

  override async disconnect(): Promise<void> {
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    await super.disconnect();
  }
}
