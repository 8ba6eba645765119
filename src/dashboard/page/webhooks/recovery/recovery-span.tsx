import { useState } from 'preact/hooks';
import { Field } from '../../elements/inputs/field.tsx';

const spans = [
  [1, 'The last hour'],
  [24, 'The last 24 hours'],
  [168, 'The last 7 days'],
  [696, 'The last 29 days'],
] as const;

/** A choice of the last so many hours, or of two moments in the reader's zone. */
export interface TimeSpan {
  /** 0 where `from` and `until` say it. */
  readonly hours: number;
  /** As the browser writes local times; `''` where none is given. */
  readonly from: string;
  readonly until: string;
}

const toIso = (local: string) => new Date(local).toISOString();

/** What the API is asked for. A custom span has at least its start. */
export function toPeriod({ hours, from, until }: TimeSpan, now = Date.now()): { since: string; until?: string } {
  if (hours > 0) return { since: new Date(now - hours * 3_600_000).toISOString() };
  return { since: toIso(from), ...(until && { until: toIso(until) }) };
}

/** The span of a form, the last day at first. */
export function useSpan(): [span: TimeSpan, change: (change: Partial<TimeSpan>) => void] {
  const [span, setSpan] = useState<TimeSpan>({ hours: 24, from: '', until: '' });
  return [span, (change) => setSpan({ ...span, ...change })];
}

interface Props {
  readonly span: TimeSpan;
  readonly onChange: (change: Partial<TimeSpan>) => void;
}

export function SpanFields({ span, onChange }: Props) {
  return (
    <>
      <Field label="From">
        {(field) => (
          <select
            {...field}
            value={span.hours}
            onChange={({ currentTarget }) => onChange({ hours: Number(currentTarget.value) })}
          >
            {spans.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
            <option value={0}>A time of your own…</option>
          </select>
        )}
      </Field>
      {span.hours === 0 &&
        (
          [
            ['from', 'Since'],
            ['until', 'Until (optional)'],
          ] as const
        ).map(([name, label]) => (
          <Field key={name} label={label}>
            {(field) => (
              <input
                {...field}
                type="datetime-local"
                required={name === 'from'}
                value={span[name]}
                onInput={({ currentTarget }) => onChange({ [name]: currentTarget.value })}
              />
            )}
          </Field>
        ))}
    </>
  );
}
