import type { ApiError } from '../../api/error.ts';
import { errorOf } from '../../data/field-errors.ts';
import { Field } from '../../elements/inputs/field.tsx';
import type { OptionTexts } from './option-texts.ts';

/** The fields of the form, as errors name them. */
export const optionFields = ['description', 'metadata', 'filters', 'rate_limit', 'headers'];

interface Props {
  readonly texts: OptionTexts;
  readonly error: ApiError | undefined;
  readonly onTexts: (texts: OptionTexts) => void;
}

/** What a webhook may have beside its URL and its events. */
export function OptionFields({ texts, error, onTexts }: Props) {
  return (
    <>
      <Field label="Description" error={errorOf(error, 'description')}>
        {(field) => (
          <input
            {...field}
            maxLength={500}
            value={texts.description}
            onInput={(event) => onTexts({ ...texts, description: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field
        label="Filters"
        error={errorOf(error, 'filters')}
        hint="Only events that have one of the values at each path are sent. A path and its values on each line; empty for every event."
      >
        {(field) => (
          <textarea
            {...field}
            class="mono"
            rows={2}
            spellcheck={false}
            placeholder="data.currency = usd, eur"
            value={texts.filters}
            onInput={(event) => onTexts({ ...texts, filters: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field
        label="Rate limit"
        error={errorOf(error, 'rate_limit')}
        hint="The most requests a second, 1 to 1,000; what is above waits. Empty for no limit."
      >
        {(field) => (
          <input
            {...field}
            type="number"
            min={1}
            max={1_000}
            step={1}
            value={texts.rate_limit}
            onInput={(event) => onTexts({ ...texts, rate_limit: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field
        label="Headers"
        error={errorOf(error, 'headers')}
        hint="Sent with each delivery: a name and its value on each line. Values are never shown again; a change replaces all of them."
      >
        {(field) => (
          <textarea
            {...field}
            class="mono"
            rows={2}
            spellcheck={false}
            autocomplete="off"
            placeholder="x-api-key: 1234"
            value={texts.headers}
            onInput={(event) => onTexts({ ...texts, headers: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field
        label="Metadata"
        error={errorOf(error, 'metadata')}
        hint="Values of your own: a key and its value on each line."
      >
        {(field) => (
          <textarea
            {...field}
            class="mono"
            rows={2}
            spellcheck={false}
            placeholder="team = accounting"
            value={texts.metadata}
            onInput={(event) => onTexts({ ...texts, metadata: event.currentTarget.value })}
          />
        )}
      </Field>
    </>
  );
}
