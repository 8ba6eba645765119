import { type Query, useRead } from '../data/query.ts';
import type { Attempt, Delivery, DeliveryDetails } from '../data/types.ts';
import { Badge, type Status } from '../elements/badge.tsx';
import { milliseconds } from '../elements/format.ts';
import { isOpen, liveEvery } from '../elements/history.tsx';
import { ErrorCode } from '../elements/states.tsx';
import { Code } from '../elements/view.tsx';

/** A delivery, as long as it can change. */
export function useDelivery(id: string): Query<DeliveryDetails> {
  return useRead('/v1/deliveries/{id}', { path: { id } }, (delivery) => (isOpen(delivery) ? liveEvery : null));
}

/** How a delivery stands, in a word or two. */
export function deliveryStatus({ state, in_flight, attempts_made }: Delivery): Status {
  switch (state) {
    case 'delivered':
      return { shape: 'good', words: 'Delivered' };
    case 'failed':
      return { shape: 'bad', words: 'Failed' };
    case 'canceled':
      return { shape: 'stopped', words: 'Canceled' };
    case 'pending':
      if (in_flight) return { shape: 'waiting', words: 'Sending', live: true };
      return { shape: 'waiting', words: attempts_made > 0 ? 'Retrying' : 'Pending' };
  }
}

const codeWords: Readonly<Record<string, string>> = {
  dns_failed: 'Name not resolved',
  address_not_allowed: 'Address not allowed',
  http_not_allowed: 'Plain http not allowed',
  connect_refused: 'Connection refused',
  connect_failed: 'No route',
  connect_timeout: 'Connection timed out',
  proxy_unreachable: 'Proxy not reached',
  proxy_refused: 'Refused by proxy',
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

/**
 * The result of one attempt in a line and, where it failed, why.
 * @param after what has been explained just before is not explained again
 */
export function AttemptSummary({ attempt, after }: { attempt: Attempt; after?: Attempt | undefined }) {
  const good = succeeded(attempt);
  return (
    <>
      <p class="wrap attempt-line">
        <Badge shape={good ? 'good' : 'bad'}>{outcomeWords(attempt)}</Badge>
        <span class="muted numbers">after {milliseconds(attempt.duration_ms)}</span>
        {attempt.code !== null && <ErrorCode code={attempt.code} />}
      </p>
      {attempt.explanation && attempt.explanation !== after?.explanation && (
        <p class="attempt-why">{attempt.explanation}</p>
      )}
    </>
  );
}

/** The request and the response; the page shows both as text, whatever they contain. */
export function AttemptExchange({ attempt }: { attempt: Attempt }) {
  const { request_headers, retry_after, location } = attempt;
  const received = headerLines({ 'retry-after': retry_after, location });
  return (
    <div class="stack exchange">
      <Code title="Request headers" text={headerLines(request_headers)} empty="Not recorded" />
      {received !== '' && <Code title="Response headers" text={received} />}
      <Code
        title={attempt.status === null ? 'Response' : `Response, HTTP ${attempt.status}`}
        text={attempt.response}
        empty={attempt.status === null ? 'Nothing came back' : 'An empty body'}
      />
    </div>
  );
}

/** The headers that there are, a line for each. */
function headerLines(headers: Readonly<Record<string, string | null>>): string {
  const sent = Object.entries(headers).filter(([, value]) => value !== null);
  return sent.map(([name, value]) => `${name}: ${value}`).join('\n');
}
