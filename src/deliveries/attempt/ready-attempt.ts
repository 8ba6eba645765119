import type { Send } from '../send/send.ts';
import { type AttemptRef, refOf } from './attempt-ref.ts';
import type { Claim } from './claims/claim.ts';
import { type DeliveryRequestDeps, toDeliveryRequest } from './delivery-request.ts';
import type { DeliveryTarget } from './delivery-target.ts';
import type { AttemptFinisher } from './finish-attempt.ts';
import { toAttemptResult } from './outcome.ts';

/** A claimed attempt that is ready to be sent. */
export interface ReadyAttempt {
  /** Makes the request. Resolves when it has ended, with a function that records the result and needs no place. Never rejects. */
  send(): Promise<() => Promise<void>>;
  /** Leaves the attempt to the next process that claims it. Never rejects. */
  giveBack(): Promise<void>;
}

/** Claims an attempt and reads its webhook and body; `null` if there is nothing to send. Never rejects. */
export type Prepare = (ref: AttemptRef) => Promise<ReadyAttempt | null>;

export interface ReadyAttemptDeps extends DeliveryRequestDeps {
  readonly send: Send;
  readonly finisher: AttemptFinisher;
  /** Keeps a job for an attempt that was given back and waits for a place again. */
  readonly scheduleWaiting: (ref: AttemptRef) => void;
}

/** Makes a claimed attempt ready: signs, sends and records it. */
export function createReadyAttempt(
  deps: ReadyAttemptDeps,
): (claim: Claim, receiver: DeliveryTarget, body: Buffer) => ReadyAttempt {
  const { finisher } = deps;

  return function readyAttempt(claim, receiver, body) {
    const post = async () => toAttemptResult(await deps.send(toDeliveryRequest(claim, receiver, body, deps)));

    return {
      async send() {
        const end = await post().then(
          (result) => () => finisher.record(claim, result),
          (error) => () => finisher.postpone(claim, error),
        );
        return () => end().then(() => {});
      },
      async giveBack() {
        await finisher.giveBack(claim);
        deps.scheduleWaiting(refOf(claim.delivery));
      },
    };
  };
}
