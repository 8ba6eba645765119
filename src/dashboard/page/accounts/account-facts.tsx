import type { AccountDetails, RateLimits } from '../api/types.ts';
import { Badge } from '../elements/badge.tsx';
import { Facts } from '../elements/facts.tsx';
import { amount, count } from '../format/number.ts';

/** `600 requests, 100,000 tokens a minute` */
function limitWords(limits: RateLimits | null, isUnknown: boolean): string {
  if (isUnknown) return 'A function of the host decides';
  if (!limits) return 'None';
  const { requests_per_minute: requests, tokens_per_minute: tokens } = limits;
  const parts = [requests !== null && `${count(requests)} requests`, tokens !== null && `${count(tokens)} tokens`];
  const set = parts.filter(Boolean);
  return set.length === 0 ? 'None' : `${set.join(', ')} a minute`;
}

function Credits({ credits }: { credits: AccountDetails['credits'] }) {
  if (!credits) return <span class="muted">The gateway keeps none</span>;
  const { credits_remaining, low_threshold } = credits;
  return (
    <>
      {amount(credits_remaining)} left {credits_remaining < low_threshold && <Badge shape="bad">Low</Badge>}
    </>
  );
}

/** What an account used this month, and what limits it. */
export function AccountFacts({ details }: { details: AccountDetails }) {
  const { account, credits, rate_limits } = details;
  const { usage } = account;
  const used =
    usage &&
    ([
      ['Requests this month', count(usage.requests)],
      ['Tokens in this month', count(usage.input_tokens)],
      ['Tokens out this month', count(usage.output_tokens)],
      ['Cost this month', `${amount(usage.credits ?? 0)} credits`],
    ] as const);
  return (
    <Facts
      facts={[
        ...(used ?? []),
        ['Credits', <Credits credits={credits} />],
        ['Rate limit of the account', limitWords(rate_limits.per_user, rate_limits.per_user_is_unknown)],
        ['Rate limit of each key', limitWords(rate_limits.per_key, rate_limits.per_key_is_unknown)],
      ]}
    />
  );
}
