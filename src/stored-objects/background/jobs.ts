import type { Connection } from 'mongoose';
import { createAgenda, jobsDb } from '../../mongo/agenda.ts';
import type { Logger } from '../../options/options.ts';
import type { PollRef } from './poll-queue.ts';

const jobName = 'background response';
/** Jobs locked and run at the same time. */
const limit = 100;

interface JobData {
  readonly responseId: string;
  readonly userId: string;
  /** How often the response has been polled before. */
  readonly polls: number;
}

export interface ResponseJobsDeps {
  readonly connection: Connection;
  /** Names this process in the jobs that it locks. */
  readonly owner: string;
  /** The name of the collection, which holds nothing but these jobs. */
  readonly collection: string;
  /** Called when a response is due by this process's clock. Must not throw. */
  readonly wake: (response: PollRef) => void;
  readonly logger: Pick<Logger, 'warn'>;
}

/** One Agenda job for the next poll of each response. Losing all jobs loses nothing: a sweep reads the responses themselves. */
export interface ResponseJobs {
  /** Await it before anything else. */
  init(): Promise<void>;
  /** Wakes whichever process comes first, in so many milliseconds. Never rejects. */
  schedule(data: JobData, wait: number): Promise<void>;
  /** Starts running jobs in this process. */
  start(): Promise<void>;
  /** Takes no more jobs, and leaves none locked. */
  stop(): Promise<void>;
}

export function createResponseJobs({ connection, owner, collection, wake, logger }: ResponseJobsDeps): ResponseJobs {
  const agenda = createAgenda({ db: jobsDb(connection), owner, collection, limit, logger });
  agenda.define<JobData>(jobName, async ({ attrs: { data } }) => wake({ id: data.responseId, userId: data.userId }));

  return {
    async init() {
      await agenda.ready;
    },
    async schedule(data, wait) {
      try {
        await agenda
          .create(jobName, data)
          .unique({ 'data.responseId': data.responseId, 'data.polls': data.polls })
          .schedule(new Date(Date.now() + wait))
          .save();
      } catch (error) {
        logger.warn('a job was not stored; a sweep will find its response', { ...data, reason: String(error) });
      }
    },
    async start() {
      await agenda.start();
    },
    async stop() {
      await agenda.stop();
    },
  };
}
