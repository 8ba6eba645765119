import type { ComponentChildren } from 'preact';
import {
  DeliveryIcon,
  EventIcon,
  KeyIcon,
  Logo,
  MoonIcon,
  OutIcon,
  SunIcon,
  UsageIcon,
  WebhookIcon,
} from '../elements/icons.tsx';
import { href } from '../routing/route.ts';
import { useSession } from '../session/session.ts';
import { useTheme } from './theme.ts';

const places = [
  { place: 'webhooks', name: 'Webhooks', Icon: WebhookIcon, scope: 'webhooks' },
  { place: 'events', name: 'Events', Icon: EventIcon, scope: 'webhooks' },
  { place: 'deliveries', name: 'Deliveries', Icon: DeliveryIcon, scope: 'webhooks' },
  { place: 'keys', name: 'API keys', Icon: KeyIcon, scope: 'keys' },
  { place: 'usage', name: 'Usage', Icon: UsageIcon, scope: 'models' },
] as const;

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

/** The frame around every view. */
export function Shell({ place, children }: { place: string; children: ComponentChildren }) {
  const { scopes } = useSession();
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById('content')?.focus()}>
        Skip to the content
      </button>
      <header class="side">
        <a class="brand" href={href(['webhooks'])}>
          <Logo />
          Webhooks
        </a>
        <nav class="places" aria-label="Views">
          {places
            .filter(({ scope }) => scopes.includes(scope))
            .map(({ place: to, name, Icon }) => (
              <a key={to} href={href([to])} aria-current={place === to ? 'page' : undefined}>
                <Icon />
                {name}
              </a>
            ))}
        </nav>
        <Account />
      </header>
      <main id="content" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}
