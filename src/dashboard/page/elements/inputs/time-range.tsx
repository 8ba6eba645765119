import { fromLocal, ownRange, toLocal } from '../../format/period.ts';
import { goTo, href, type Route } from '../../routing/route.ts';
import { Choice } from './choice.tsx';

const spans = [
  { value: '1h', name: 'Last hour' },
  { value: '24h', name: 'Last 24 hours' },
  { value: '7d', name: 'Last 7 days' },
  { value: ownRange, name: 'Between two times…' },
] as const;

const bounds = [
  { name: 'since', label: 'Since' },
  { name: 'until', label: 'Until' },
] as const;

/** A choice of a period, which stands in the address: the last so many hours, or from one moment to another. */
export function TimeRange({ route }: { route: Route }) {
  const { after: _, ...query } = route.query;
  return (
    <>
      <Choice route={route} name="time" label="Time" any="Any time" options={spans} />
      {query.time === ownRange &&
        bounds.map(({ name, label }) => (
          <label key={name} class="choice bound">
            <span>{label}</span>
            <input
              type="datetime-local"
              value={toLocal(query[name])}
              onChange={({ currentTarget }) =>
                goTo(href(route.path, { ...query, [name]: fromLocal(currentTarget.value) }))
              }
            />
          </label>
        ))}
    </>
  );
}
