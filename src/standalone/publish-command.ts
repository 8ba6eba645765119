import { Command } from 'commander';
import { GatewayError } from '../errors.ts';
import { readPlace } from './config.ts';
import { besideGateway } from './place.ts';

interface PublishOptions {
  readonly user: string;
  readonly type: string;
  readonly data: string;
  readonly idempotencyKey?: string;
}

const help = `
Publishes into the database of the gateway: MONGODB_URI, or the embedded one found through DATA_DIR while it runs.
Prints the id of the event.

Example:
  $ express-model-gateway publish --user usr_1 --type credits.low \\
      --data '{"user_id":"usr_1","credits_remaining":50,"threshold":100}'
`;

function parseData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new GatewayError('invalid_event_data', `data: is no JSON: ${(error as Error).message}`, { param: 'data' });
  }
}

async function publish({ user, type, data, idempotencyKey }: PublishOptions): Promise<void> {
  const event = { userId: user, type, data: parseData(data) };
  const choices = idempotencyKey === undefined ? {} : { idempotencyKey };
  const { id } = await besideGateway(readPlace(process.env), (gateway) => gateway.publish(event, choices));
  console.log(id);
}

/** `publish`: one event, from the shell. */
export function publishCommand(): Command {
  return new Command('publish')
    .description("publish an event to an account's webhooks")
    .requiredOption('--user <id>', 'the account, such as usr_1')
    .requiredOption('--type <type>', 'the event type, such as payment.completed')
    .requiredOption('--data <json>', "the event's data, a JSON object")
    .option('--idempotency-key <key>', 'publish at most once under this key; the same key gives the same event')
    .addHelpText('after', help)
    .action(publish);
}
