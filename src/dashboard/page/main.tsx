import { render } from 'preact';
import { App } from './app.tsx';
import './styles/main.css';
import { showChosenTheme } from './shell/theme.ts';

const root = document.getElementById('app');
if (root) {
  showChosenTheme();
  render(<App hostSessions={root.dataset.signIn === 'session'} />, root);
}
