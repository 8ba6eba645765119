import { useAction, useRead } from '../data/query.ts';
import { goTo, href, type Route } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { Webhook } from '../data/types.ts';
import { DeliveryList, deliveryStates } from '../deliveries/deliveries-view.tsx';
import { outcomeWords } from '../deliveries/delivery.tsx';
import { useAnnounce } from '../elements/announce.tsx';
import { StatusBadge, Tags } from '../elements/badge.tsx';
import { Button, Id } from '../elements/button.tsx';
import { isNarrowed, Tabs, TimeRange, usePeriod } from '../elements/filters.tsx';
import { FormDialog } from '../elements/form.tsx';
import { EditIcon, KeyIcon, PauseIcon, PlayIcon, SendIcon, TrashIcon } from '../elements/icons.tsx';
import { Failure, Loaded } from '../elements/states.tsx';
import { Ago, Time } from '../elements/time.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { Facts, Heading, Notice } from '../elements/view.tsx';
import { toTexts } from './option-texts.ts';
import { Recover } from './recover.tsx';
import { StatsCard } from './stats.tsx';
import { TestEvent } from './test-event.tsx';
import { lastFailed, Url, urlParts, webhookStatus } from './webhook.tsx';
import { EditWebhook, RotateSecret } from './webhook-form.tsx';

/** Milliseconds. */
const refreshEvery = 5_000;
/** One webhook: its health, what was sent to it, and its actions. */
export function WebhookView({ id, route }: { id: string; route: Route }) {
  const query = useRead('/v1/webhooks/{id}', { path: { id } }, refreshEvery);
  return (
    <Loaded query={query} lines={8} head={<Heading title="Webhook" up="webhooks" />}>
      {(webhook) => <Opened webhook={webhook} route={route} onChanged={query.reload} />}
    </Loaded>
  );
}

function Opened({ webhook, route, onChanged }: { webhook: Webhook; route: Route; onChanged: () => void }) {
  const { id, url } = webhook;
  const stats = useRead('/v1/webhooks/{id}/stats', { path: { id } }, refreshEvery);
  const period = usePeriod(route);
  return (
    <>
      <Heading
        title={urlParts(url).host}
        up="webhooks"
        actions={<WebhookActions webhook={webhook} onChanged={onChanged} />}
      >
        <span class="url">
          <Url url={url} />
        </span>{' '}
        <StatusBadge status={webhookStatus(webhook)} />
      </Heading>
      <HealthNotice webhook={webhook} />
      <WebhookFacts webhook={webhook} />
      <Loaded query={stats} lines={5}>
        {(data) => <StatsCard stats={data} />}
      </Loaded>
      <Recover webhook={webhook} />
      <h2 class="between">Deliveries</h2>
      <div class="filters wrap">
        <Tabs route={route} name="state" label="State" any="All" options={deliveryStates} />
        <TimeRange route={route} />
      </div>
      <DeliveryList
        route={route}
        filter={{ webhook_id: id, ...period }}
        narrowed={isNarrowed(route, ['state', 'time'])}
      />
    </>
  );
}

/** Everything that can be done to a webhook. */
function WebhookActions({ webhook, onChanged }: { webhook: Webhook; onChanged: () => void }) {
  const api = useApi();
  const announce = useAnnounce();
  const [testDialog, openTest] = useDialog((close) => <TestEvent webhook={webhook} onClose={close} />, onChanged);
  const changes = { webhook, onChanged };
  const [editDialog, openEdit] = useDialog((close) => <EditWebhook {...changes} onClose={close} />);
  const [rotateDialog, openRotate] = useDialog((close) => <RotateSecret {...changes} onClose={close} />);
  const [deleteDialog, openDelete] = useDialog((close) => <DeleteWebhook webhook={webhook} onClose={close} />);
  const toggle = useAction(async () => {
    const body = { active: !webhook.active };
    await api.PATCH('/v1/webhooks/{id}', { params: { path: { id: webhook.id } }, body });
    announce(webhook.active ? 'The webhook is paused' : 'The webhook is active again');
    onChanged();
  });
  return (
    <>
      <Button
        kind="primary"
        disabledReason={!webhook.active && 'The webhook is paused: resume it first'}
        onClick={openTest}
      >
        <SendIcon />
        Send test event
      </Button>
      <Button busy={toggle.running} onClick={() => void toggle.run()}>
        {webhook.active ? <PauseIcon /> : <PlayIcon />}
        {webhook.active ? 'Pause' : 'Resume'}
      </Button>
      <Button onClick={openEdit}>
        <EditIcon />
        Edit
      </Button>
      <Button onClick={openRotate}>
        <KeyIcon />
        Rotate secret
      </Button>
      <Button kind="danger" onClick={openDelete}>
        <TrashIcon />
        Delete
      </Button>
      {toggle.error && <Failure error={toggle.error} />}
      {testDialog}
      {editDialog}
      {rotateDialog}
      {deleteDialog}
    </>
  );
}

function DeleteWebhook({ webhook: { id, url }, onClose }: { webhook: Webhook; onClose: () => void }) {
  const api = useApi();
  return (
    <FormDialog
      danger
      title="Delete the webhook?"
      submit="Delete webhook"
      onSubmit={async () => {
        await api.DELETE('/v1/webhooks/{id}', { params: { path: { id } } });
        goTo(href(['webhooks']));
      }}
      done="The webhook has been deleted"
      onClose={onClose}
    >
      <p>
        Nothing more is sent to <code class="url">{url}</code>; deliveries under way end canceled. This cannot be
        undone.
      </p>
      <p class="muted">To stop for a while, pause it instead: then what it misses can be recovered.</p>
    </FormDialog>
  );
}

const disabledFor = {
  gone: 'it answered 410 Gone',
  failing: 'everything sent to it failed for days',
} as const;

/** What its owner should know first. */
function HealthNotice({ webhook }: { webhook: Webhook }) {
  const { active, disabled, secret_rotation: rotation } = webhook;
  return (
    <>
      {disabled && (
        <Notice bad icon="bad">
          It was disabled <Ago at={disabled.at} />, for {disabledFor[disabled.reason]}. Repair the receiver, then resume
          it and recover what it missed.
        </Notice>
      )}
      {!active && !disabled && (
        <Notice icon="paused">
          It is paused: nothing is sent. What it misses can be recovered once it is resumed.
        </Notice>
      )}
      <LastFailure webhook={webhook} />
      {rotation && (
        <Notice>
          Two secrets are good until <Time at={rotation.ends_at} />. x-service-signature is made with the{' '}
          {rotation.service_signature} one.
        </Notice>
      )}
    </>
  );
}

/** Why the last attempt failed, as long as none has succeeded since; not for a webhook without attempts in a week. */
function LastFailure({ webhook: { active, disabled, health } }: { webhook: Webhook }) {
  const { failing_since, last_failure } = health;
  if (!last_failure || !lastFailed(health) || (!active && !disabled)) return null;
  const isFailing = health.state === 'failing' || Boolean(disabled);
  if (!isFailing && health.state === 'idle') return null;
  const since = isFailing && failing_since;
  return (
    <Notice bad={isFailing} icon={isFailing ? 'bad' : 'uneasy'}>
      <b>{outcomeWords(last_failure)}</b> – {since ? 'failing since' : 'the last attempt failed,'}{' '}
      <Ago at={since || last_failure.at} />
      <br />
      {last_failure.explanation} <a href={href(['deliveries', last_failure.delivery_id])}>See the last failure</a>
    </Notice>
  );
}

function WebhookFacts({ webhook }: { webhook: Webhook }) {
  const { last_success_at } = webhook.health;
  const { description, filters, metadata, rate_limit } = toTexts(webhook);
  const names = (webhook.header_names ?? []).join(', ');
  return (
    <Facts
      wide={['Description', 'Events', 'Filters', 'Metadata']}
      facts={[
        ['Webhook id', <Id id={webhook.id} what="webhook id" />],
        ['Created', <Time at={webhook.created_at} />],
        ['Last success', last_success_at ? <Ago at={last_success_at} /> : 'None yet'],
        ['Signatures', <a href={href(['verification'])}>How to verify them</a>],
        ['Description', description],
        ['Events', <Tags of={webhook.events} />],
        ['Rate limit', rate_limit && `${rate_limit} requests a second`],
        ['Filters', filters && <Lines text={filters} />],
        ['Headers', names && <code class="mono">{names}</code>],
        ['Metadata', metadata && <Lines text={metadata} />],
      ]}
    />
  );
}

function Lines({ text }: { text: string }) {
  return (
    <code class="mono">
      {text.split('\n').map((line) => (
        <div key={line}>{line}</div>
      ))}
    </code>
  );
}
