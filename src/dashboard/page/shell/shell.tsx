import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { gatewaySettings } from '../data/api.ts';
import { goTo, href } from '../data/route.ts';
import { useSession } from '../data/session.ts';
import { useAnnounce } from '../elements/announce.tsx';
import { Button } from '../elements/button.tsx';
import { verbatim } from '../elements/form.tsx';
import { timeZone } from '../elements/format.ts';
import { Logo, MoonIcon, OutIcon, SunIcon } from '../elements/icons.tsx';
import { addressOf, firstView, idOf, isShown, operatorViews, views } from './views.ts';

/** The frame around every view. */
export function Shell({ view, children }: { view: string; children: ComponentChildren }) {
  const { scopes } = useSession();
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to the content
      </button>
      <header class="side">
        <a class="line brand" href={href([firstView(scopes) ?? 'webhooks'])}>
          <Logo />
          Gateway
        </a>
        <SearchField />
        <Navigation label="Views" of={views} view={view} />
        <Navigation label="Operator" named of={operatorViews} view={view} />
        <Account />
      </header>
      <main id="content" tabIndex={-1}>
        <ScopeNote />
        {children}
        <footer class="zone muted small">
          <div>Times are in {timeZone()}; in UTC on hover.</div>
          <div class="wrap">
            {gatewaySettings().hasReference && <a href="reference/">API reference</a>}
            <a href={href(['errors'])}>Error codes</a>
          </div>
        </footer>
      </main>
    </div>
  );
}

/** Opens what an id names; for the operator, whosever it is. */
function SearchField() {
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
          {...verbatim}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </form>
    </search>
  );
}

interface NavigationProps {
  readonly label: string;
  /** Whether the label is shown. */
  readonly named?: boolean;
  readonly of: typeof views | typeof operatorViews;
  readonly view: string;
}

/** The links to those of some views that the scopes show. */
function Navigation({ label, named, of, view }: NavigationProps) {
  const { scopes } = useSession();
  const { hasUsage } = gatewaySettings();
  const shown = of.filter((known) => isShown(known, scopes) && (hasUsage || known.view !== 'usage'));
  if (shown.length === 0) return null;
  return (
    <nav class="views" aria-label={label}>
      {named && (
        <p class="views-name muted small" aria-hidden="true">
          {label}
        </p>
      )}
      {shown.map(({ view: to, name, Icon }) => (
        <a key={to} class="line" href={href([to])} aria-current={view === to ? 'page' : undefined}>
          <Icon />
          {name}
        </a>
      ))}
    </nav>
  );
}

function Account() {
  const { user_id, via, signOut } = useSession();
  return (
    <div class="line account">
      <span class="account-id cut muted" title={user_id}>
        <span class="visually-hidden">Signed in as </span>
        {user_id}
      </span>
      <ThemeToggle />
      {via === 'key' && (
        <Button kind="icon" label="Sign out" title="Sign out" onClick={signOut}>
          <OutIcon />
        </Button>
      )}
    </div>
  );
}

function ThemeToggle() {
  const [theme, setTheme] = useState<Theme>(
    () => chosenTheme() ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'),
  );
  const other = theme === 'dark' ? 'light' : 'dark';
  const toggle = () => {
    localStorage.setItem(themeName, other);
    showChosenTheme();
    setTheme(other);
  };
  return (
    <Button kind="icon" label={`Use ${other} colours`} title={other === 'dark' ? 'Dark' : 'Light'} onClick={toggle}>
      {other === 'dark' ? <MoonIcon /> : <SunIcon />}
    </Button>
  );
}

type Theme = 'light' | 'dark';

const themeName = 'gateway-theme';

/** The theme that was chosen here before; the system's stands otherwise. */
export function showChosenTheme(): void {
  const theme = chosenTheme();
  if (theme) document.documentElement.style.colorScheme = theme;
}

function chosenTheme(): Theme | undefined {
  const theme = localStorage.getItem(themeName);
  return theme === 'light' || theme === 'dark' ? theme : undefined;
}

/** Says what a key lacks that cannot see webhooks, which most people come for. */
function ScopeNote() {
  const { scopes, via } = useSession();
  if (scopes.includes('webhooks') || scopes.includes('admin')) return null;
  // the overview is made of the others
  const shown = views.filter((known) => known.view !== 'overview' && isShown(known, scopes)).map(({ name }) => name);
  return (
    <p class="note scope-note">
      {via === 'key' ? 'This key' : 'Your account here'} has the {scopes.length === 1 ? 'scope' : 'scopes'}{' '}
      {scopes.join(', ')}, so it shows {new Intl.ListFormat('en').format(shown)} alone. Webhooks, events and deliveries
      need the scope webhooks.
    </p>
  );
}
