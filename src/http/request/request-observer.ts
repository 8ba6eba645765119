import type { ErrorCode } from '../../errors.ts';
import type { RelayNote } from '../operation.ts';
import type { Principal } from '../principal.ts';

/** A request under `/v1` that has ended. */
export interface EndedRequest {
  readonly requestId: string;
  readonly method: string;
  /** Its `operationId`; `none` where the path has none for this method. */
  readonly operation: string;
  /** Who made it, if that became known. */
  readonly principal: Principal | undefined;
  /** `undefined` if no answer began. */
  readonly status: number | undefined;
  /** The error that was answered, or that ended an answer. */
  readonly code: ErrorCode | undefined;
  /** Whether the client disconnected before the end of the answer. */
  readonly clientDisconnected: boolean;
  readonly durationMs: number;
  readonly relayed: RelayNote;
}

/** Told of requests. */
export interface RequestObserver {
  ended(request: EndedRequest): void;
}
