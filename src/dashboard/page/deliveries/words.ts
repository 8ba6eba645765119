import type { Attempt, Delivery, DeliveryDetails } from '../api/types.ts';
import type { StateShape } from '../elements/icons.tsx';

/** How a delivery stands, in a word or two. */
export function statusOf({ state, in_flight, attempts_made }: Delivery): {
  shape: StateShape;
  words: string;
  live: boolean;
} {
  switch (state) {
    case 'delivered':
      return { shape: 'good', words: 'Delivered', live: false };
    case 'failed':
      return { shape: 'bad', words: 'Failed', live: false };
    case 'canceled':
      return { shape: 'stopped', words: 'Canceled', live: false };
    case 'pending':
      if (in_flight) return { shape: 'waiting', words: 'Sending', live: true };
      return { shape: 'waiting', words: attempts_made > 0 ? 'Retrying' : 'Pending', live: false };
  }
}

const codeWords: Readonly<Record<string, string>> = {
  dns_failed: 'Name not resolved',
  address_not_allowed: 'Address not allowed',
  http_not_allowed: 'Plain http not allowed',
  connect_refused: 'Connection refused',
  connect_failed: 'No route',
  connect_timeout: 'Connection timed out',
  tls_failed: 'TLS failed',
  reset: 'Connection closed early',
  timeout: 'Timed out',
  redirect: 'Redirect',
  invalid_response: 'No valid HTTP',
  worker_crashed: 'Sender crashed',
};

/** The result of an attempt: `HTTP 500`, `Connection refused`. */
export function outcomeWords({ status, code }: Pick<Attempt, 'status' | 'code'>): string {
  if (status !== null) return `HTTP ${status}`;
  if (code === null) return 'No answer';
  return codeWords[code] ?? code.replaceAll('_', ' ');
}

export function succeeded({ status, code }: Pick<Attempt, 'status' | 'code'>): boolean {
  return code === null && status !== null;
}

const reasonWords: Readonly<Record<NonNullable<Delivery['reason']>, string>> = {
  webhook_deleted: 'The webhook was deleted before this was delivered.',
  webhook_inactive: 'The webhook was paused when the next attempt was due.',
  unsubscribed: 'The webhook was no longer subscribed to this type when the next attempt was due.',
  event_deleted: 'The event expired before this was delivered.',
};

export function reasonOf({ reason }: Delivery): string {
  return reason === null ? 'It was canceled.' : reasonWords[reason];
}

/** `2 manual`: attempts outside the schedule; empty if there are none. */
export function manualWords({ attempts }: Pick<DeliveryDetails, 'attempts'>): string {
  const n = attempts.filter(({ manual }) => manual).length;
  return n === 0 ? '' : `${n} manual`;
}

/** Whether its state can still change without a resend. */
export function isOpen({ state, in_flight }: Delivery): boolean {
  return state === 'pending' || in_flight;
}
