import type { BrowserContextOptions } from 'playwright-core';
import type { ModelGatewayOptions } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { openPage, type WatchedPage } from './browser.ts';

/** A gateway with its dashboard, and pages that look at it. */
export interface Scene {
  readonly live: LiveGateway;
  /** Where the page is. */
  readonly dashboard: string;
  /** A page of its own, signed out. */
  open(place?: string, options?: BrowserContextOptions): Promise<WatchedPage>;
  /** A page signed in by a key, as a person does it. */
  signIn(place?: string, options?: BrowserContextOptions & { readonly key?: string }): Promise<WatchedPage>;
  close(): Promise<void>;
}

export async function startScene(options: Partial<ModelGatewayOptions> = {}): Promise<Scene> {
  const live = await startGateway({ dashboard: { path: '/dashboard' }, ...options });
  const dashboard = `${live.url}${options.dashboard?.path ?? '/dashboard'}/`;

  const open: Scene['open'] = async (place = '', choices = {}) => {
    const watched = await openPage(dashboard, choices);
    await watched.page.goto(dashboard + place);
    return watched;
  };
  return {
    live,
    dashboard,
    open,
    async signIn(place, { key = live.key, ...choices } = {}) {
      const watched = await open(place, choices);
      await watched.page.getByLabel('API key').fill(key);
      await watched.page.getByRole('button', { name: 'Sign in' }).click();
      await watched.page
        .getByRole('navigation', { name: /^(Views|Operator)$/ })
        .first()
        .waitFor();
      return watched;
    },
    close: live.close,
  };
}
