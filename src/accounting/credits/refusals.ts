import { GatewayError } from '../../errors.ts';

/** Longer than it takes to agree on an account twice. Milliseconds. */
const retryAfter = 150;

export function insufficient(): GatewayError {
  return new GatewayError('insufficient_credits', 'This account has no credits left; add some and call again', {
    headers: { 'x-should-retry': 'false' },
  });
}

/** The account has credits, but they are not set aside here yet: OpenAI's clients try again by themselves. */
export function tooFast(): GatewayError {
  const message = 'This account spends faster than its credits can be set aside for it; try again in a moment';
  return new GatewayError('rate_limit_exceeded', message, {
    headers: { 'retry-after': '1', 'retry-after-ms': String(retryAfter), 'x-should-retry': 'true' },
  });
}
