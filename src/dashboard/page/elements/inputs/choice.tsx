import { goTo, href, type Route } from '../../routing/route.ts';

interface Option {
  readonly value: string;
  readonly name: string;
}

interface Props {
  readonly route: Route;
  /** The part of the address that it sets. */
  readonly name: string;
  readonly label: string;
  /** What it is called when nothing is chosen. */
  readonly any: string;
  readonly options: readonly Option[];
}

/** A choice that stands in the address. Another one starts from the first page. */
export function Choice({ route, name, label, any, options }: Props) {
  const chosen = route.query[name] ?? '';
  const { after: _, ...query } = route.query;
  const isListed = chosen === '' || options.some(({ value }) => value === chosen);
  return (
    <label class="choice">
      <span class="visually-hidden">{label}</span>
      <select
        class={chosen ? 'chosen' : undefined}
        value={chosen}
        onChange={(event) => goTo(href(route.path, { ...query, [name]: event.currentTarget.value }))}
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
export function Tabs({ route, name, label, any, options }: Props) {
  const { after: _, ...query } = route.query;
  return (
    <nav class="tabs" aria-label={label}>
      {[{ value: '', name: any }, ...options].map(({ value, name: text }) => (
        <a
          key={value}
          href={href(route.path, { ...query, [name]: value })}
          aria-current={(route.query[name] ?? '') === value ? 'true' : undefined}
        >
          {text}
        </a>
      ))}
    </nav>
  );
}
