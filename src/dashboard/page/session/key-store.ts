const name = 'gateway-api-key';

/** The key stays with this tab: never in a URL, gone when the tab is closed. */
export const keyStore = {
  read: (): string | null => sessionStorage.getItem(name),
  write: (key: string): void => sessionStorage.setItem(name, key),
  clear: (): void => sessionStorage.removeItem(name),
};
