import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, databaseOption, examples } from '../../client/api-command.ts';
import { createShow, type GatewayOptions } from '../../client/context.ts';
import { readJsonObject } from '../../client/json-option.ts';
import type { Terminal } from '../../terminal/terminal.ts';

interface Options extends GatewayOptions {
  readonly type: string;
  readonly user: string;
  readonly data: string;
  readonly idempotencyKey?: string;
  readonly database?: true;
}

/** Publishes straight in the database. */
export type PublishStored = (
  event: Schemas['EventPublish'],
  idempotencyKey?: string,
) => Promise<Schemas['PublishedEvent']>;

const usage = examples(
  `events publish --user usr_1 --type credits.low --data '{"user_id":"usr_1","credits_remaining":50,"threshold":100}'`,
  'events publish --user usr_1 --type payment.completed --data @payment.json --idempotency-key pay_1',
  'events publish --database --user usr_1 --type payment.completed --data - <payment.json',
);

function describe(name: string): Command {
  return new Command(name)
    .description("publish an event to an account's webhooks; needs a key with the scope events:publish, or --database")
    .requiredOption('--type <type>', 'its type (events types lists them)')
    .requiredOption('--user <account>', 'whose webhooks hear of it, such as usr_1')
    .requiredOption('--data <json>', 'its data: a JSON object, @<file>, or - for stdin')
    .option('--idempotency-key <key>', 'publish at most once under this key; the same key gives the same event')
    .addHelpText('after', usage);
}

async function eventOf({ type, user, data }: Options, terminal: Terminal): Promise<Schemas['EventPublish']> {
  return { type, user_id: user, data: await readJsonObject('--data', data, terminal) };
}

const idLine = ({ id }: { id: string }) => [id];

/** `events publish` */
export function publishEventCommand(terminal: Terminal, publishStored: PublishStored): Command {
  return describe('publish')
    .addOption(databaseOption())
    .action(async (options: Options, command: Command) => {
      const event = await eventOf(options, terminal);
      const { idempotencyKey, database, json = false } = options;
      if (database) return createShow(terminal, json)(await publishStored(event, idempotencyKey), idLine);
      const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey };
      await apiAction(terminal, async ({ api, show }) => {
        show(await dataOf(api.POST('/v1/events', { params: { header }, body: event })), idLine);
      })(command);
    });
}

/** `publish`, as `events publish --database` was called before there was an API for it. */
export function publishStoredCommand(terminal: Terminal, publishStored: PublishStored): Command {
  return describe('publish').action(async (options: Options) => {
    terminal.print((await publishStored(await eventOf(options, terminal), options.idempotencyKey)).id);
  });
}
