import type { Webhook } from '../api/types.ts';
import type { StateShape } from '../elements/icons.tsx';

const healthWords: Readonly<Record<Webhook['health']['state'], { shape: StateShape; words: string }>> = {
  healthy: { shape: 'good', words: 'Healthy' },
  failing: { shape: 'bad', words: 'Failing' },
  idle: { shape: 'idle', words: 'Idle' },
};

/** Whether the latest thing that happened to it was a failure; it takes more of them before it counts as failing. */
export function lastFailed({ last_success_at, last_failure }: Webhook['health']): boolean {
  return last_failure !== null && (last_success_at === null || last_success_at < last_failure.at);
}

/** How a webhook stands, in a word. */
export function statusOf({ active, disabled, health }: Webhook): { shape: StateShape; words: string } {
  if (disabled) return { shape: 'bad', words: 'Disabled' };
  if (!active) return { shape: 'paused', words: 'Paused' };
  if (health.state === 'healthy' && lastFailed(health)) return { shape: 'uneasy', words: 'Last one failed' };
  return healthWords[health.state];
}
