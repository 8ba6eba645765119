import { useState } from 'preact/hooks';
import { goTo } from '../routing/route.ts';
import { useAnnounce } from '../shell/announce.tsx';
import { addressOf, idOf } from './id-address.ts';

/** Opens what an id names. */
export function SearchField() {
  const announce = useAnnounce();
  const [text, setText] = useState('');
  return (
    <search class="search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const address = addressOf(idOf(text));
          if (!address) return announce('Enter a whole id: wh_…, evt_…, dlv_… or key_…');
          setText('');
          goTo(address);
        }}
      >
        <input
          aria-label="Find by id"
          placeholder="Find by id"
          title="The id of a webhook, an event, a delivery or an API key"
          class="mono"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </form>
    </search>
  );
}
