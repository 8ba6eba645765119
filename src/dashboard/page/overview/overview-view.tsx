import type { ComponentChildren } from 'preact';
import { daysBetween, measures } from '../account/usage-series.ts';
import { dayBefore, UsageChart } from '../account/usage-view.tsx';
import { type Api, gatewaySettings, read } from '../data/api.ts';
import { asApiError } from '../data/error.ts';
import { useQuery, useRead } from '../data/query.ts';
import { href } from '../data/route.ts';
import { useSession } from '../data/session.ts';
import type { UsageLine, Webhook } from '../data/types.ts';
import { FailedDeliveries } from '../deliveries/deliveries-view.tsx';
import { outcomeWords } from '../deliveries/delivery.tsx';
import { Badge, StatusBadge } from '../elements/badge.tsx';
import { amount, counted } from '../elements/format.ts';
import { Loaded } from '../elements/states.tsx';
import { type List, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { Card, Heading } from '../elements/view.tsx';
import { webhookStatus } from '../webhooks/webhook.tsx';
import { WebhookName } from '../webhooks/webhooks-view.tsx';
import { GetStarted } from './get-started.tsx';

/** Milliseconds. */
const refreshUsageEvery = 30_000;

/** What to do first, what the account uses and has left, and what fails. */
export function OverviewView() {
  const { scopes } = useSession();
  return (
    <>
      <Heading title="Overview" />
      <GetStarted />
      {scopes.includes('models') && gatewaySettings().hasUsage && <UsageCard />}
      {scopes.includes('webhooks') && <Failures />}
    </>
  );
}

const days = 14;

function UsageCard() {
  const [from, to] = [dayBefore(days - 1), dayBefore(0)];
  const usage = useRead('/v1/usage', { query: { from, to, group_by: 'day' } }, refreshUsageEvery);
  return (
    <Card id="usage" title="Usage" aside={<a href={href(['usage'])}>By model and key</a>}>
      <Loaded query={usage}>
        {({ data }) => (
          <>
            <Numbers lines={data} today={to} />
            <div class="chart">
              <Chart lines={data} days={daysBetween(from, to)} />
            </div>
          </>
        )}
      </Loaded>
    </Card>
  );
}

function Numbers({ lines, today }: { lines: readonly UsageLine[]; today: string }) {
  const shown = [
    measures.requests,
    measures.tokens,
    lines.some(({ credits }) => credits !== undefined) && measures.credits,
  ];
  return (
    <dl class="card-body numbers numbers-row">
      {shown.map((measure) => {
        if (!measure) return null;
        const sum = (of: readonly UsageLine[]) => amount(of.reduce((total, line) => total + measure.of(line), 0));
        return (
          <NumberOf key={measure.name} name={`${measure.name} today`} more={`${sum(lines)} in ${days} days`}>
            {sum(lines.filter(({ day }) => day === today))}
          </NumberOf>
        );
      })}
      {gatewaySettings().hasCredits && <CreditsLeft />}
    </dl>
  );
}

function NumberOf({ name, more, children }: { name: string; more?: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {children}
        {more && <div class="muted small">{more}</div>}
      </dd>
    </div>
  );
}

function CreditsLeft() {
  const { data } = useRead('/v1/credits', {}, refreshUsageEvery);
  if (!data) return null;
  const { credits_remaining: left, low_threshold } = data;
  return (
    <NumberOf name="Credits left">
      {amount(left)} {low_threshold !== null && left < low_threshold && <Badge shape="bad">Low</Badge>}
    </NumberOf>
  );
}

function Chart({ lines, days }: { lines: readonly UsageLine[]; days: readonly string[] }) {
  const { name, of } = measures.requests;
  const byDay = new Map(lines.map((line) => [line.day, of(line)]));
  const series = [{ name, values: days.map((day) => byDay.get(day) ?? 0) }];
  if (byDay.size === 0) return <p class="muted">No model calls in the last {days.length} days.</p>;
  return <UsageChart days={days} series={series} label="Requests by day" nameOf={(name) => name} />;
}

/** Of so many webhooks the state is asked for, of each by a read of its own. */
const maxStates = 10;
/** Milliseconds. */
const refreshStatesEvery = 120_000;

/** A webhook with its state; `undefined` when it has been deleted meanwhile. */
async function readWebhook(api: Api, id: string, signal: AbortSignal): Promise<Webhook | undefined> {
  try {
    return await read(api, '/v1/webhooks/{id}', { path: { id } }, signal);
  } catch (error) {
    if (asApiError(error).status === 404) return undefined;
    throw error;
  }
}

async function readWebhooks(api: Api, signal: AbortSignal) {
  const { data, has_more } = await read(api, '/v1/webhooks', { query: { limit: 50 } }, signal);
  const states = await Promise.all(data.slice(0, maxStates).map(({ id }) => readWebhook(api, id, signal)));
  return {
    listed: data,
    webhooks: states.filter((webhook) => webhook !== undefined),
    isMore: has_more === true || data.length > maxStates,
  };
}

function Failures() {
  const { api } = useSession();
  const query = useQuery((signal) => readWebhooks(api, signal), 'webhooks', refreshStatesEvery);
  return (
    <>
      <Card id="webhooks" title="Webhooks" aside={<a href={href(['webhooks'])}>All webhooks</a>}>
        <Loaded query={query}>{({ webhooks, isMore }) => <WebhookStates webhooks={webhooks} isMore={isMore} />}</Loaded>
      </Card>
      <FailedDeliveries webhooks={query.data?.listed ?? []} />
    </>
  );
}

const isTrouble = (webhook: Webhook) => ['bad', 'uneasy'].includes(webhookStatus(webhook).shape);

/** How many webhooks are in each state, and those that fail or were disabled. */
function WebhookStates({ webhooks, isMore }: { webhooks: readonly Webhook[]; isMore: boolean }) {
  const statuses = webhooks.map(webhookStatus);
  const kinds = new Map(statuses.map((status) => [status.words, status.shape]));
  return (
    <>
      <div class="card-body">
        <p class="wrap">
          {webhooks.length === 0 && <span class="muted">No webhooks yet.</span>}
          {[...kinds].map(([words, shape]) => (
            <Badge key={words} shape={shape}>
              {`${words}: ${statuses.filter((status) => status.words === words).length}`}
            </Badge>
          ))}
          {isMore && <span class="muted small">of the first {counted(webhooks.length, 'webhook')}</span>}
        </p>
      </div>
      {webhooks.some(isTrouble) && <Table {...list} rows={webhooks.filter(isTrouble)} />}
    </>
  );
}

const list: List<Webhook> = {
  kind: 'webhooks',
  caption: 'Webhooks that fail',
  keyOf: ({ id }) => id,
  columns: [
    { head: 'State', cell: (webhook) => <StatusBadge status={webhookStatus(webhook)} /> },
    { head: 'Webhook', width: '40%', class: 'cell-main', cell: WebhookName },
    { head: 'Last failure', class: 'cell-wide', cell: LastFailure },
  ],
};

function LastFailure({ health: { last_failure } }: Webhook) {
  if (!last_failure) return null;
  return (
    <>
      {outcomeWords(last_failure)}, <Ago at={last_failure.at} />
      <div class="muted small">{last_failure.explanation}</div>
    </>
  );
}
