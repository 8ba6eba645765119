import { Command, InvalidArgumentError, Option } from 'commander';
import { GatewayError } from '../errors.ts';
import { type ApiKey, type ApiKeyInput, type ModelGateway, type Scope, scopes } from '../index.ts';
import { readPlace } from './config.ts';
import { besideGateway } from './place.ts';

const place = `
Works on the database of the gateway: MONGODB_URI, or the embedded one found through DATA_DIR while it runs.
`;

interface CreateOptions {
  readonly user: string;
  readonly name?: string;
  readonly scope?: readonly Scope[];
  readonly model?: readonly string[];
  readonly expires?: Date;
}

function readMoment(text: string): Date {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime()))
    throw new InvalidArgumentError('It must be a moment such as 2027-01-01T00:00:00Z.');
  return moment;
}

function stateOf({ revokedAt, expiresAt }: ApiKey): string {
  if (revokedAt) return `revoked ${revokedAt.toISOString()}`;
  return expiresAt ? `until ${expiresAt.toISOString()}` : 'active';
}

function describe(key: ApiKey): string {
  return [key.id, key.createdAt.toISOString(), key.scopes.join(','), stateOf(key), key.name].join('  ').trimEnd();
}

async function create({ user, name, scope, model, expires }: CreateOptions): Promise<void> {
  const input: ApiKeyInput = {
    userId: user,
    ...(name !== undefined && { name }),
    ...(scope && { scopes: scope }),
    ...(model && { models: model }),
    ...(expires && { expiresAt: expires }),
  };
  const { id, key } = await besideGateway(readPlace(process.env), ({ keys }) => keys.create(input));
  console.log(`Key id: ${id}\nAPI key: ${key}`);
}

async function* everyKey({ keys }: ModelGateway, user: string): AsyncGenerator<ApiKey> {
  let after: string | undefined;
  do {
    const page = await keys.list(user, after === undefined ? {} : { after });
    yield* page.keys;
    after = page.hasMore ? page.keys.at(-1)?.id : undefined;
  } while (after !== undefined);
}

async function list({ user }: { user: string }): Promise<void> {
  await besideGateway(readPlace(process.env), async (gateway) => {
    for await (const key of everyKey(gateway, user)) console.log(describe(key));
  });
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
        .addOption(
          new Option('--scope <scope...>', 'what it may be used for; models, webhooks and keys by default').choices(
            scopes,
          ),
        )
        .option('--model <model...>', 'the only models it may call; any by default')
        .option('--expires <moment>', 'when it ends, such as 2027-01-01T00:00:00Z; never by default', readMoment)
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
