import { useState } from 'preact/hooks';
import { goTo, href, type Route } from '../../routing/route.ts';
import { Button } from './button.tsx';

interface Props {
  readonly route: Route;
  /** The part of the address that it sets. */
  readonly name: string;
  readonly label: string;
}

/** A text that stands in the address once it is sent. Another one starts from the first page. */
export function TextFilter({ route, name, label }: Props) {
  const { after: _, ...query } = route.query;
  const chosen = query[name] ?? '';
  const [text, setText] = useState(chosen);
  const set = (value: string) => goTo(href(route.path, { ...query, [name]: value.trim() }));
  return (
    <form
      class="text-filter"
      onSubmit={(event) => {
        event.preventDefault();
        set(text);
      }}
    >
      <label class="choice bound">
        <span>{label}</span>
        <input
          class="mono"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
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
