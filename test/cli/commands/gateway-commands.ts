import type { ModelGatewayOptions } from '../../../src/index.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { command, type Outcome, RecordedTerminal, type Setting } from '../recorded-terminal.ts';

/** A gateway, and commands that speak to it as `usr_1`. */
export interface Commanded extends LiveGateway {
  readonly env: Readonly<Record<string, string>>;
  run(...args: readonly string[]): Promise<Outcome>;
  runWith(setting: Setting, ...args: readonly string[]): Promise<Outcome>;
  terminal(): RecordedTerminal;
}

export async function startCommanded(options?: Partial<ModelGatewayOptions>): Promise<Commanded> {
  const live = await startGateway(options);
  const env = { EXPRESS_MODEL_GATEWAY_BASE_URL: live.url, EXPRESS_MODEL_GATEWAY_API_KEY: live.key };
  return {
    ...live,
    env,
    run: (...args) => command(args, { env }),
    runWith: (setting, ...args) => command(args, { ...setting, env: { ...env, ...setting.env } }),
    terminal: () => new RecordedTerminal({ env }),
  };
}
