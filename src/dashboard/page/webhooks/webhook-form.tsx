import type { InputHTMLAttributes } from 'preact';
import { useId, useState } from 'preact/hooks';
import { dataOf } from '../data/api.ts';
import { ApiError } from '../data/error.ts';
import { goTo, href } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { Webhook, WebhookCreate, WebhookUpdate } from '../data/types.ts';
import { Button, CopyButton } from '../elements/button.tsx';
import {
  Check,
  Checks,
  Field,
  FieldError,
  FormDialog,
  SelectField,
  TextField,
  useFieldError,
  verbatim,
} from '../elements/form.tsx';
import { Loaded } from '../elements/states.tsx';
import { useEventTypes, withoutStage } from '../events/event-types.tsx';
import { type OptionTexts, toOptionChanges, toOptions, toTexts } from './option-texts.ts';

export function CreateWebhook({ onClose }: { onClose: () => void }) {
  const api = useApi();
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<string[]>([]);
  const [secret, setSecret] = useState(newSecret);
  const [options, setOptions] = useState(() => toTexts({}));
  return (
    <FormDialog
      title="Add a webhook"
      submit="Add webhook"
      fields={['url', 'secret', 'events', ...optionNames]}
      onSubmit={async () => {
        requireEvents(events);
        const body = { url: url.trim(), events, secret, ...toOptions(options) } as WebhookCreate;
        const { id } = await dataOf(api.POST('/v1/webhooks', { body }));
        goTo(href(['webhooks', id]));
      }}
      done="The webhook has been added"
      onClose={onClose}
    >
      <TextField
        label="URL"
        hint="Where events are sent, by POST. It should answer 2xx within 30 seconds."
        name="url"
        input={{
          type: 'url',
          class: 'mono',
          required: true,
          maxLength: 2_048,
          placeholder: 'https://example.com/webhooks',
        }}
        value={url}
        onText={setUrl}
      />
      <SecretField label="Secret" secret={secret} onSecret={setSecret} />
      <EventsField chosen={events} onChosen={setEvents} />
      <OptionFields texts={options} onTexts={setOptions} />
    </FormDialog>
  );
}

interface ChangeProps {
  readonly webhook: Webhook;
  readonly onClose: () => void;
  readonly onChanged: () => void;
}

export function EditWebhook({ webhook, onClose, onChanged }: ChangeProps) {
  const api = useApi();
  const [events, setEvents] = useState<string[]>([...webhook.events]);
  const [active, setActive] = useState(webhook.active);
  const [options, setOptions] = useState(() => toTexts(webhook));
  return (
    <FormDialog
      title="Edit the webhook"
      submit="Save"
      fields={['events', ...optionNames]}
      onSubmit={async () => {
        requireEvents(events);
        const body = { events, active, ...toOptionChanges(options, webhook) } as WebhookUpdate;
        await api.PATCH('/v1/webhooks/{id}', { params: { path: { id: webhook.id } }, body });
        onChanged();
      }}
      done="The webhook has been changed"
      onClose={onClose}
    >
      <p class="muted">
        Its URL stays: <code class="url">{webhook.url}</code>. For another one, add a webhook.
      </p>
      <Check
        name="Active"
        meaning="While it is not, nothing is sent; what it misses can be recovered later."
        checked={active}
        onChecked={setActive}
      />
      <EventsField chosen={events} onChosen={setEvents} />
      <OptionFields texts={options} onTexts={setOptions} />
    </FormDialog>
  );
}

const overlaps = [
  [3_600, '1 hour'],
  [86_400, '1 day'],
  [604_800, '7 days'],
  [0, 'None: the old secret has leaked'],
] as const;

const signatures = [
  ['new', 'The new secret'],
  ['previous', 'The previous secret'],
] as const;

export function RotateSecret({ webhook, onClose, onChanged }: ChangeProps) {
  const api = useApi();
  const [secret, setSecret] = useState(newSecret);
  const [overlap, setOverlap] = useState<(typeof overlaps)[number][0]>(86_400);
  const [signature, setSignature] = useState<(typeof signatures)[number][0]>('new');
  return (
    <FormDialog
      title="Rotate the secret"
      submit="Rotate secret"
      fields={['secret']}
      onSubmit={async () => {
        const service_signature = overlap > 0 ? { service_signature: signature } : {};
        const body = { secret, overlap_seconds: overlap, ...service_signature };
        await api.POST('/v1/webhooks/{id}/rotate_secret', { params: { path: { id: webhook.id } }, body });
        onChanged();
      }}
      done="The secret has been rotated"
      onClose={onClose}
    >
      <SecretField label="New secret" secret={secret} onSecret={setSecret} />
      <SelectField
        label="Both secrets are good for"
        hint="Until then webhook-signature has a signature with each of them."
        value={overlap}
        options={overlaps}
        onChosen={setOverlap}
      />
      {overlap > 0 && (
        <SelectField
          label="Meanwhile x-service-signature is made with"
          hint="It has room for one signature. A receiver that checks only this header needs the previous secret until it knows the new one."
          value={signature}
          options={signatures}
          onChosen={setSignature}
        />
      )}
    </FormDialog>
  );
}

interface SecretProps {
  readonly label: string;
  readonly secret: string;
  readonly onSecret: (secret: string) => void;
}

function SecretField({ label, secret, onSecret }: SecretProps) {
  return (
    <Field
      label={label}
      name="secret"
      hint="Your receiver checks signatures with it. Copy it now: it is never shown again."
    >
      {(field) => (
        <div class="line">
          <input
            {...field}
            {...verbatim}
            required
            minLength={8}
            maxLength={256}
            value={secret}
            onInput={(event) => onSecret(event.currentTarget.value)}
          />
          <CopyButton text={secret} what="secret" />
          <Button onClick={() => onSecret(newSecret())}>Generate</Button>
        </div>
      )}
    </Field>
  );
}

/** A secret that cannot be guessed, in the form of Standard Webhooks: `whsec_` and 32 random bytes in base64. */
function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}

/** The types of event to receive. */
function EventsField({ chosen, onChosen }: { chosen: readonly string[]; onChosen: (types: string[]) => void }) {
  const id = useId();
  const error = useFieldError('events');
  const query = useEventTypes();
  return (
    <fieldset class="field event-types" aria-describedby={error ? `${id}-error` : undefined}>
      <legend>Events</legend>
      <Loaded query={query} lines={8}>
        {({ data }) => {
          const all = data.map(({ type }) => type);
          const complete = all.every((type) => chosen.includes(type));
          return (
            <>
              <label class="check check-all">
                <input type="checkbox" checked={complete} onChange={() => onChosen(complete ? [] : all)} />
                All events
              </label>
              <Checks
                chosen={chosen}
                options={data.map(({ type, description }) => ({ name: type, meaning: withoutStage(description) }))}
                onChosen={onChosen}
              />
            </>
          );
        }}
      </Loaded>
      <FieldError id={`${id}-error`} error={error} />
    </fieldset>
  );
}

/** @throws ApiError for the field where no type is chosen */
function requireEvents(chosen: readonly string[]): void {
  if (chosen.length > 0) return;
  throw new ApiError('events: choose at least one', { status: 0, code: 'missing_required_parameter', param: 'events' });
}

interface OptionField {
  /** As errors name it. */
  readonly name: keyof OptionTexts;
  readonly label: string;
  readonly hint?: string;
  /** Of a line of text. */
  readonly input?: InputHTMLAttributes;
  /** Of several lines, each with a name and what belongs to it: what they look like. */
  readonly example?: string;
}

/** What a webhook may have beside its URL and its events. */
const optionFields: readonly OptionField[] = [
  { name: 'description', label: 'Description', input: { maxLength: 500 } },
  {
    name: 'filters',
    label: 'Filters',
    hint: 'Only events that have one of the values at each path are sent. A path and its values on each line; empty for every event.',
    example: 'data.currency = usd, eur',
  },
  {
    name: 'rate_limit',
    label: 'Rate limit',
    hint: 'The most requests a second, 1 to 1,000; what is above waits. Empty for no limit.',
    input: { type: 'number', min: 1, max: 1_000, step: 1 },
  },
  {
    name: 'headers',
    label: 'Headers',
    hint: 'Sent with each delivery: a name and its value on each line. Values are never shown again; a change replaces all of them.',
    example: 'x-api-key: 1234',
  },
  {
    name: 'metadata',
    label: 'Metadata',
    hint: 'Values of your own: a key and its value on each line.',
    example: 'team = accounting',
  },
];

const optionNames = optionFields.map(({ name }) => name);

function OptionFields({ texts, onTexts }: { texts: OptionTexts; onTexts: (texts: OptionTexts) => void }) {
  return optionFields.map(({ example, input = {}, ...field }) => {
    const value = texts[field.name];
    const onText = (text: string) => onTexts({ ...texts, [field.name]: text });
    if (!example) return <TextField key={field.name} {...field} input={input} value={value} onText={onText} />;
    return (
      <Field key={field.name} {...field}>
        {(control) => (
          <textarea
            {...control}
            {...verbatim}
            rows={2}
            placeholder={example}
            value={value}
            onInput={({ currentTarget }) => onText(currentTarget.value)}
          />
        )}
      </Field>
    );
  });
}
