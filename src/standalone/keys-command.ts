import { Command } from 'commander';
import { GatewayError } from '../errors.ts';
import type { ApiKey } from '../index.ts';
import { readPlace } from './config.ts';
import { besideGateway } from './place.ts';

const place = `
Works on the database of the gateway: MONGODB_URI, or the embedded one found through DATA_DIR while it runs.
`;

function describe({ id, name, createdAt, revokedAt }: ApiKey): string {
  const state = revokedAt ? `revoked ${revokedAt.toISOString()}` : 'active';
  return [id, createdAt.toISOString(), state, name].join('  ').trimEnd();
}

async function create({ user, name }: { user: string; name?: string }): Promise<void> {
  const input = name === undefined ? { userId: user } : { userId: user, name };
  const { id, key } = await besideGateway(readPlace(process.env), ({ keys }) => keys.create(input));
  console.log(`Key id: ${id}\nAPI key: ${key}`);
}

async function list({ user }: { user: string }): Promise<void> {
  const found = await besideGateway(readPlace(process.env), ({ keys }) => keys.list(user));
  for (const key of found) console.log(describe(key));
}

async function revoke(id: string): Promise<void> {
  const revoked = await besideGateway(readPlace(process.env), ({ keys }) => keys.revoke(id));
  if (!revoked) throw new GatewayError('not_found', `There is no active key ${id}`, { param: 'id' });
  console.log(`Revoked ${id}`);
}

/** `keys`: the API keys of an account, from the shell. */
export function keysCommand(): Command {
  return new Command('keys')
    .description("create, list and revoke an account's API keys")
    .addHelpText('after', place)
    .addCommand(
      new Command('create')
        .description('make a key and show it this once')
        .requiredOption('--user <id>', 'the account, such as usr_1')
        .option('--name <name>', 'what the key is for')
        .action(create),
    )
    .addCommand(
      new Command('list')
        .description("an account's keys, oldest first")
        .requiredOption('--user <id>', 'the account, such as usr_1')
        .action(list),
    )
    .addCommand(new Command('revoke').description('make a key useless').argument('<id>', 'key_…').action(revoke));
}
