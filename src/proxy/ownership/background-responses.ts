import type { UsageRecord } from '../../options/options.ts';
import type { Admission } from '../admission.ts';
import type { BackgroundUsage } from './background-usage.ts';
import type { StoredObject } from './stored-objects.ts';

/** A stored response that is made in the background and has not been counted yet. */
export interface BackgroundResponse extends StoredObject {
  readonly background: BackgroundUsage;
}

type ResponseRef = Pick<StoredObject, 'id' | 'userId'>;

/** Polls responses that are made in the background, until each is counted, once. */
export interface BackgroundResponses {
  /** @throws GatewayError `rate_limit_exceeded` while this process follows as many of the account as it may have */
  requireRoom(userId: string): void;
  /**
   * The upstream has begun one, and its record is stored. Its admissions stay until it is counted.
   * @param tokensStreamed the output tokens that its stream has shown by now; an estimated record has no fewer
   */
  started(response: ResponseRef, admissions: readonly Admission[], tokensStreamed?: () => number): void;
  /** It has ended. Never rejects: if it cannot be counted now, it is counted later. */
  ended(response: ResponseRef, record: UsageRecord): Promise<void>;
  /** It may have ended: polls it soon. */
  pollSoon(response: BackgroundResponse): void;
  /**
   * Polls it now.
   * @returns whether it has ended and is counted
   * @throws GatewayError with the code of an upstream's failure, `database_unavailable`
   */
  settle(response: BackgroundResponse): Promise<boolean>;
}

/** Polls none. */
export const noBackgroundResponses: BackgroundResponses = {
  requireRoom() {},
  started() {},
  async ended() {},
  pollSoon() {},
  settle: async () => true,
};
