import { GatewayError } from '../errors.ts';

/** An error for somebody at a terminal: what is wrong and what to do. A stack only where it is our mistake. */
export function explainError(error: unknown): string {
  if (error instanceof GatewayError && error.status < 500) return `${error.code}: ${error.message}`;
  if (error instanceof GatewayError) return error.message;
  const expected = error instanceof Error && !(error instanceof TypeError || error instanceof RangeError);
  return expected ? error.message : String((error as Error)?.stack ?? error);
}
