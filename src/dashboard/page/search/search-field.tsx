import { useState } from 'preact/hooks';
import { goTo, href } from '../routing/route.ts';
import { useSession } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';
import { addressOf, idOf } from './id-address.ts';

/** Opens what an id names; for the operator, whosever it is. */
export function SearchField() {
  const announce = useAnnounce();
  const isOperator = useSession().scopes.includes('admin');
  const [text, setText] = useState('');
  return (
    <search class="search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const id = idOf(text);
          if (id === '') return;
          const address = isOperator ? href(['find', id]) : addressOf(id);
          if (!address) return announce('Enter a whole id: wh_…, evt_…, dlv_… or key_…');
          setText('');
          goTo(address);
        }}
      >
        <input
          aria-label="Find by id"
          placeholder="Find by id"
          title={isOperator ? 'Any id, of any account' : 'The id of a webhook, an event, a delivery or an API key'}
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
