import { useId } from 'preact/hooks';
import { ApiError } from '../../api/error.ts';
import { Loaded } from '../../elements/states.tsx';
import { useEventTypes } from '../../events/use-event-types.ts';
import { withoutStage } from '../../events/words.ts';

interface Props {
  readonly chosen: readonly string[];
  readonly error?: string | undefined;
  readonly onChosen: (types: string[]) => void;
}

/** @throws ApiError for the field where no type is chosen */
export function requireEvents(chosen: readonly string[]): void {
  if (chosen.length > 0) return;
  throw new ApiError('events: choose at least one', { status: 0, code: 'missing_required_parameter', param: 'events' });
}

/** The types of event to receive. */
export function EventsField({ chosen, error, onChosen }: Props) {
  const id = useId();
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
              {data.map(({ type, description }) => (
                <label class="check" key={type}>
                  <input
                    type="checkbox"
                    checked={chosen.includes(type)}
                    onChange={({ currentTarget }) =>
                      onChosen(all.filter((name) => (name === type ? currentTarget.checked : chosen.includes(name))))
                    }
                  />
                  <span>
                    <b>{type}</b>
                    <span class="muted small">{withoutStage(description)}</span>
                  </span>
                </label>
              ))}
            </>
          );
        }}
      </Loaded>
      {error && (
        <p class="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </fieldset>
  );
}
