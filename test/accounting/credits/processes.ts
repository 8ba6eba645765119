import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import type { GatewayProcessConfig } from './gateway-process.ts';

/** A gateway in an operating system's process of its own. */
export interface GatewayProcess {
  readonly child: ChildProcess;
  /** Without `/v1`. */
  readonly url: string;
  /** Resolves when it has died. */
  readonly died: Promise<unknown>;
}

const script = fileURLToPath(new URL('./gateway-process.ts', import.meta.url));

export async function startProcess(config: GatewayProcessConfig): Promise<GatewayProcess> {
  const child = await forkCompiled(script, config);
  const died = once(child, 'exit');
  const started = await Promise.race([once(child, 'message'), died.then(() => undefined)]);
  if (!started) throw new Error('a gateway process ended before it served');
  const [{ url }] = started as [{ url: string }];
  return { child, url, died };
}
