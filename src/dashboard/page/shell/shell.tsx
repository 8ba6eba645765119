import type { ComponentChildren } from 'preact';
import { Logo, MoonIcon, OutIcon, SunIcon } from '../elements/icons.tsx';
import { timeZone } from '../format/time.ts';
import { href } from '../routing/route.ts';
import { SearchField } from '../search/search-field.tsx';
import { useSession } from '../session/session.ts';
import { useTheme } from './theme.ts';
import { firstView, operatorViews, views } from './views.ts';

function ThemeToggle() {
  const [theme, toggle] = useTheme();
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={theme === 'dark' ? 'Use light colours' : 'Use dark colours'}
      title={theme === 'dark' ? 'Light' : 'Dark'}
      onClick={toggle}
    >
      {theme === 'dark' ? <SunIcon /> : <MoonIcon />}
    </button>
  );
}

function Account() {
  const { user_id, via, signOut } = useSession();
  return (
    <div class="account">
      <span class="account-id" title={user_id}>
        <span class="visually-hidden">Signed in as </span>
        {user_id}
      </span>
      <ThemeToggle />
      {via === 'key' && (
        <button type="button" class="icon-button" aria-label="Sign out" title="Sign out" onClick={signOut}>
          <OutIcon />
        </button>
      )}
    </div>
  );
}

/** The links to those of some views that the scopes show. */
function Navigation({ label, of, view }: { label: string; of: typeof views | typeof operatorViews; view: string }) {
  const { scopes } = useSession();
  const shown = of.filter(({ scope }) => scopes.includes(scope));
  if (shown.length === 0) return null;
  return (
    <nav class="views" aria-label={label}>
      {shown.map(({ view: to, name, Icon }) => (
        <a key={to} href={href([to])} aria-current={view === to ? 'page' : undefined}>
          <Icon />
          {name}
        </a>
      ))}
    </nav>
  );
}

/** Says what a key lacks that cannot see webhooks, which most people come for. */
function ScopeNote() {
  const { scopes, via } = useSession();
  if (scopes.includes('webhooks') || scopes.includes('admin')) return null;
  const shown = views.filter(({ scope }) => scopes.includes(scope)).map(({ name }) => name);
  return (
    <p class="note scope-note">
      {via === 'key' ? 'This key' : 'Your account here'} has the {scopes.length === 1 ? 'scope' : 'scopes'}{' '}
      {scopes.join(', ')}, so it shows {shown.join(' and ')} alone. Webhooks, events and deliveries need the scope
      webhooks.
    </p>
  );
}

function hasReference(): boolean {
  return document.getElementById('app')?.dataset.reference === 'true';
}

/** The frame around every view. */
export function Shell({ view, children }: { view: string; children: ComponentChildren }) {
  const { scopes } = useSession();
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to the content
      </button>
      <header class="side">
        <a class="brand" href={href([firstView(scopes) ?? 'webhooks'])}>
          <Logo />
          Webhooks
        </a>
        <SearchField />
        <Navigation label="Views" of={views} view={view} />
        <Navigation label="Operator" of={operatorViews} view={view} />
        <Account />
      </header>
      <main id="content" tabIndex={-1}>
        <ScopeNote />
        {children}
        <footer class="zone muted small">
          <div>Times are in {timeZone()}; in UTC on hover.</div>
          {hasReference() && (
            <div>
              <a href="reference/">API reference</a>
            </div>
          )}
        </footer>
      </main>
    </div>
  );
}
