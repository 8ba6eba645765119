const statuses = {
  header_missing: 401,
  header_malformed: 401,
  no_secret_matched: 401,
  timestamp_too_old: 401,
  timestamp_in_future: 401,
  body_parsed: 500,
  body_too_large: 413,
  body_incomplete: 400,
  body_not_json: 400,
} as const;

/**
 * Why a delivery is refused, for programs.
 *
 * - `header_missing`, `header_malformed`: a header of the signature is not there, or has another form; the message names it
 * - `no_secret_matched`: another secret made the signature, or the body was changed on its way
 * - `timestamp_too_old`, `timestamp_in_future`: the signature is right, but `webhook-timestamp` is further away than `tolerance`
 * - `body_parsed`: another parser has read the body before the receiver and kept no bytes
 * - `body_too_large`: it is longer than `maxBytes`
 * - `body_incomplete`: the sender left in the middle of it; `onError` is not told
 * - `body_not_json`: the signature is right, but the body is not JSON
 */
export type ReceiverErrorCode = keyof typeof statuses;

/** Why a delivery is not handled. `message` is for the owner of the receiver; a sender with a wrong signature is not shown it. */
export class ReceiverError extends Error {
  override readonly name = 'ReceiverError';
  readonly code: ReceiverErrorCode;
  /** The status that the delivery is answered with. */
  readonly status: number;

  constructor(code: ReceiverErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = statuses[code];
  }
}
