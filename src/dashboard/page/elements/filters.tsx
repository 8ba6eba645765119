import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { goTo, href, presentRoute, type Route } from '../data/route.ts';
import { Button } from './button.tsx';
import { verbatim } from './form.tsx';

interface ChoiceProps {
  readonly route: Route;
  /** The part of the address that it sets. */
  readonly name: string;
  readonly label: string;
  /** What it is called when nothing is chosen. */
  readonly any: string;
  readonly options: readonly { readonly value: string; readonly name: string }[];
}

/** The address with another choice in it, which starts from the first page. */
function addressWith({ path, query: { after: _, ...query } }: Route, name: string, value: string): string {
  return href(path, { ...query, [name]: value });
}

/** Goes where the page is, with another choice: two that are made at once both count. */
function choose(name: string, value: string): void {
  goTo(addressWith(presentRoute(), name, value));
}

/** What decides what a view shows. */
export function Filters({ label = 'Choose what is shown', children }: { label?: string; children: ComponentChildren }) {
  return (
    <search class="filters wrap" aria-label={label}>
      {children}
    </search>
  );
}

/** A choice that stands in the address. */
export function Choice({ route, name, label, any, options }: ChoiceProps) {
  const chosen = route.query[name] ?? '';
  const isListed = chosen === '' || options.some(({ value }) => value === chosen);
  return (
    <label class="choice">
      <span class="visually-hidden">{label}</span>
      <select
        class={chosen ? 'chosen' : undefined}
        value={chosen}
        onChange={({ currentTarget }) => choose(name, currentTarget.value)}
      >
        <option value="">{any}</option>
        {!isListed && <option value={chosen}>{chosen}</option>}
        {options.map(({ value, name: text }) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A few choices side by side, as links. */
export function Tabs({ route, name, label, any, options }: ChoiceProps) {
  return (
    <nav class="segmented tabs" aria-label={label}>
      {[{ value: '', name: any }, ...options].map(({ value, name: text }) => (
        <a
          key={value}
          class="button button-quiet"
          href={addressWith(route, name, value)}
          aria-current={(route.query[name] ?? '') === value ? 'true' : undefined}
        >
          {text}
        </a>
      ))}
    </nav>
  );
}

/** A text that stands in the address once it is sent. */
export function TextFilter({ route, name, label }: Pick<ChoiceProps, 'route' | 'name' | 'label'>) {
  const chosen = route.query[name] ?? '';
  const [text, setText] = useState(chosen);
  const set = (value: string) => choose(name, value.trim());
  return (
    <form
      class="text-filter wrap"
      onSubmit={(event) => {
        event.preventDefault();
        set(text);
      }}
    >
      <label class="line choice bound">
        <span>{label}</span>
        <input {...verbatim} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
      </label>
      <Button type="submit">Show</Button>
      {chosen && (
        <Button
          kind="quiet"
          onClick={() => {
            setText('');
            set('');
          }}
        >
          Clear
        </Button>
      )}
    </form>
  );
}

/** Goes back to everything; nothing where none of these parts of the address is set. */
export function ClearFilters({ route, names }: { route: Route; names: readonly string[] }) {
  if (!isNarrowed(route, names)) return null;
  return (
    <a class="clear" href={href(route.path)}>
      Clear filters
    </a>
  );
}

/** Whether one of these parts of the address is set. */
export function isNarrowed({ query }: Route, names: readonly string[]): boolean {
  return names.some((name) => query[name]);
}

const spans = [
  { value: '1h', name: 'Last hour', hours: 1 },
  { value: '24h', name: 'Last 24 hours', hours: 24 },
  { value: '7d', name: 'Last 7 days', hours: 168 },
] as const;

/** The choice of a period between two moments. */
const ownRange = { value: 'range', name: 'Between two times…' };

const bounds = [
  { name: 'since', label: 'Since' },
  { name: 'until', label: 'Until' },
] as const;

/** A choice of a period, which stands in the address: the last so many hours, or from one moment to another. */
export function TimeRange({ route }: { route: Route }) {
  return (
    <>
      <Choice route={route} name="time" label="Time" any="Any time" options={[...spans, ownRange]} />
      {route.query.time === ownRange.value &&
        bounds.map(({ name, label }) => (
          <label key={name} class="line choice bound">
            <span>{label}</span>
            <input
              type="datetime-local"
              value={toLocal(route.query[name])}
              onChange={({ currentTarget }) => choose(name, fromLocal(currentTarget.value))}
            />
          </label>
        ))}
    </>
  );
}

/** The period that the address says. A span moves on with the clock only when it is chosen anew. */
export function usePeriod({ query: { time, since, until } }: Route): { since?: string; until?: string } {
  return useMemo(() => {
    if (time === ownRange.value) return { ...(since && { since }), ...(until && { until }) };
    const start = sinceOf(time);
    return start === undefined ? {} : { since: start };
  }, [time, since, until]);
}

/** The start of a span that is chosen, to the minute, so that asking again is the same question. */
export function sinceOf(chosen: string | undefined): string | undefined {
  const span = spans.find(({ value }) => value === chosen);
  if (!span) return undefined;
  return new Date(Math.floor((Date.now() - span.hours * 3_600_000) / 60_000) * 60_000).toISOString();
}

/** A moment as the browser writes local times: `2026-01-31T12:00`; `''` where there is none. */
function toLocal(iso: string | undefined): string {
  const at = new Date(iso ?? '');
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** A local time as the browser writes it, in ISO 8601 and UTC; `''` where there is none. */
export function fromLocal(local: string): string {
  return local === '' ? '' : new Date(local).toISOString();
}
