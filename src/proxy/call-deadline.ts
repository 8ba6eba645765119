import type { ApiRequest } from '../http/operation.ts';
import { Deadline } from '../outbound/deadline.ts';
import { outboundError } from '../outbound/outbound-error.ts';

/** Whether the client is still there. */
type Client = Pick<ApiRequest['client'], 'disconnected' | 'onDisconnect'>;

/** For calls whose end no client waits for by its request: it never leaves. */
export const noClient: Client = { disconnected: false, onDisconnect() {} };

/**
 * Ends a call early: when the client leaves or a time limit passes. With AbortSignals in the place of this and of `ClientDisconnect` a
 * relayed call takes 1.11 times the CPU (1.07 to 1.17 in five interleaved rounds), with one in the place of this alone 1.05 times.
 */
export class CallDeadline extends Deadline {
  readonly client: Client;

  /**
   * @param total milliseconds for the whole call
   * @param graceOnDisconnect how long the call may continue after the client has left; called at that moment. Milliseconds. @default 0
   */
  constructor(client: Client, total: number, graceOnDisconnect = () => 0) {
    super(total);
    this.client = client;
    client.onDisconnect(() => {
      const grace = graceOnDisconnect();
      if (grace > 0) this.endWithin(grace);
      else this.abort(outboundError('aborted'));
    });
  }

  override get isOver(): boolean {
    return this.aborted || this.client.disconnected;
  }

  override release(): void {
    super.release();
    this.client.onDisconnect(undefined);
  }
}

/** Waits; resolves early when the deadline aborts the call. */
export function pause(milliseconds: number, deadline: Deadline): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      deadline.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    if (deadline.aborted) done();
    else deadline.addEventListener('abort', done);
  });
}
