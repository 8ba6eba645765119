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

interface LinesProps extends Props {
  readonly name: 'filters' | 'headers' | 'metadata';
  readonly label: string;
  readonly hint: string;
  readonly placeholder: string;
}

/** An option of several lines, each with a name and what belongs to it. */
function LinesField({ name, label, hint, placeholder, texts, error, onTexts }: LinesProps) {
  return (
    <Field label={label} error={errorOf(error, name)} hint={hint}>
      {(field) => (
        <textarea
          {...field}
          class="mono"
          rows={2}
          spellcheck={false}
          autocomplete="off"
          placeholder={placeholder}
          value={texts[name]}
          onInput={(event) => onTexts({ ...texts, [name]: event.currentTarget.value })}
        />
      )}
    </Field>
  );
}

/** What a webhook may have beside its URL and its events. */
export function OptionFields(props: Props) {
  const { texts, error, onTexts } = props;
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
      <LinesField
        {...props}
        name="filters"
        label="Filters"
        hint="Only events that have one of the values at each path are sent. A path and its values on each line; empty for every event."
        placeholder="data.currency = usd, eur"
      />
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
      <LinesField
        {...props}
        name="headers"
        label="Headers"
        hint="Sent with each delivery: a name and its value on each line. Values are never shown again; a change replaces all of them."
        placeholder="x-api-key: 1234"
      />
      <LinesField
        {...props}
        name="metadata"
        label="Metadata"
        hint="Values of your own: a key and its value on each line."
        placeholder="team = accounting"
      />
    </>
  );
}
