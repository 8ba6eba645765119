import type { Attempt } from '../api/types.ts';
import { Badge } from '../elements/badge.tsx';
import { Code } from '../elements/code.tsx';
import { Time } from '../elements/time.tsx';
import { milliseconds } from '../format/number.ts';
import { outcomeWords, succeeded } from './words.ts';

interface SummaryProps {
  readonly attempt: Attempt;
  /** What has been explained just before is not explained again. */
  readonly after?: Attempt | undefined;
}

/** The result of one attempt in a line and, where it failed, why. */
export function AttemptSummary({ attempt, after }: SummaryProps) {
  const good = succeeded(attempt);
  return (
    <>
      <p class="attempt-line">
        <Badge shape={good ? 'good' : 'bad'}>{outcomeWords(attempt)}</Badge>
        <span class="muted numbers">after {milliseconds(attempt.duration_ms)}</span>
      </p>
      {attempt.explanation && attempt.explanation !== after?.explanation && (
        <p class="attempt-why">{attempt.explanation}</p>
      )}
    </>
  );
}

/** The headers of the response that are recorded. */
function responseHeaders({ retry_after, location }: Attempt): Attempt['request_headers'] {
  return { ...(retry_after !== null && { 'retry-after': retry_after }), ...(location !== null && { location }) };
}

function headerLines(headers: Attempt['request_headers']): string {
  return Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');
}

/** The request and the response; the page shows both as text, whatever they contain. */
export function AttemptExchange({ attempt }: { attempt: Attempt }) {
  const received = headerLines(responseHeaders(attempt));
  return (
    <div class="exchange">
      <Code title="Request headers" text={headerLines(attempt.request_headers)} empty="Not recorded" />
      {received !== '' && <Code title="Response headers" text={received} />}
      <Code
        title={attempt.status === null ? 'Response' : `Response, HTTP ${attempt.status}`}
        text={attempt.response}
        empty={attempt.status === null ? 'Nothing came back' : 'An empty body'}
      />
    </div>
  );
}

/** One attempt of the timeline; the last one is open. */
export function AttemptEntry({ attempt, after, open }: SummaryProps & { readonly open: boolean }) {
  return (
    <li class={`moment ${succeeded(attempt) ? 'moment-good' : 'moment-bad'}`}>
      <div class="moment-head">
        <h3>{attempt.manual ? 'Manual attempt' : `Attempt ${attempt.number}`}</h3>
        <span class="muted small">
          <Time at={attempt.started_at} />
        </span>
      </div>
      <AttemptSummary attempt={attempt} after={after} />
      <details open={open}>
        <summary>Request and response</summary>
        <AttemptExchange attempt={attempt} />
      </details>
    </li>
  );
}
