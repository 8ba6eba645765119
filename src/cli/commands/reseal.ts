import { Command } from 'commander';
import { GatewayError } from '../../errors.ts';
import { readDatabaseSettings } from '../config/config.ts';
import type { Terminal } from '../terminal/terminal.ts';

const help = `
Works on the database of the gateway: MONGODB_URI with SECRET_KEYS, or the embedded one found through DATA_DIR while
it runs, with the keys in DATA_DIR/secret.key, one a line. May run beside gateways, and again.

To change the key, in this order:
  1. put the new key behind the others, and restart every gateway: now all can open what it will seal
  2. move it to the front, and restart every gateway: now it seals
  3. run this command
  4. take the old keys out; a gateway that would still need one refuses to start and names it

Example:
  $ SECRET_KEYS=<new>,<old> MONGODB_URI=mongodb://db1,db2,db3/gateway express-model-gateway reseal
`;

async function reseal({ env, print }: Terminal): Promise<void> {
  const settings = readDatabaseSettings(env);
  if (settings.mongodbUri && !settings.secretKeys) {
    const message = 'SECRET_KEYS: is required with MONGODB_URI, the new key first and then those in use';
    throw new GatewayError('invalid_options', message, { param: 'SECRET_KEYS' });
  }
  const { besideGateway } = await import('../database/database.ts');
  const { resealed, unreadable } = await besideGateway(settings, ({ webhooks }) => webhooks.reseal());
  print(`Resealed: ${resealed}`);
  if (unreadable.length === 0) return;
  throw new GatewayError(
    'secret_unreadable',
    `The secrets of these webhooks cannot be opened and were left as they are: ${unreadable.join(', ')}`,
  );
}

export function resealCommand(terminal: Terminal): Command {
  return new Command('reseal')
    .description('seal every webhook secret anew with the first of SECRET_KEYS')
    .addHelpText('after', help)
    .action(() => reseal(terminal));
}
