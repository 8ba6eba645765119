/** Why a delivery is not handled, and the status that says so to its sender. */
export class ReceiverError extends Error {
  override readonly name = 'ReceiverError';
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}
