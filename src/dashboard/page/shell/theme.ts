import { useState } from 'preact/hooks';

export type Theme = 'light' | 'dark';

const name = 'gateway-theme';

function chosen(): Theme | undefined {
  const theme = localStorage.getItem(name);
  return theme === 'light' || theme === 'dark' ? theme : undefined;
}

function show(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
}

/** The theme that was chosen here before; the system's stands otherwise. */
export function showChosenTheme(): void {
  const theme = chosen();
  if (theme) show(theme);
}

export function useTheme(): [theme: Theme, toggle: () => void] {
  const [theme, setTheme] = useState<Theme>(
    () => chosen() ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'),
  );
  return [
    theme,
    () => {
      const other = theme === 'dark' ? 'light' : 'dark';
      localStorage.setItem(name, other);
      show(other);
      setTheme(other);
    },
  ];
}
