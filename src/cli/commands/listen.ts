import { Command, InvalidArgumentError } from 'commander';
import { allowedBy, duration, type Parser, wholeNumber } from '../config/parsers.ts';
import { untilSignal } from '../terminal/until-signal.ts';

interface Options {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  readonly status: number;
  readonly delay: number;
}

const help = `
Examples:
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret --status 500    # see retries
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret --delay 31s     # see time-outs
`;

const hour = 3_600_000;

/** @throws InvalidArgumentError, which commander shows with the option's name */
function take<T>(parser: Parser<T>): (text: string) => T {
  return (text) => {
    const { success, data } = parser.safeParse(text);
    if (!success) throw new InvalidArgumentError(`It must be ${allowedBy(parser)}.`);
    return data;
  };
}

async function receive(options: Options): Promise<void> {
  const parent = process.ppid;
  const { listen } = await import('../server/test-receiver.ts');
  const server = await listen(options, (text) => console.log(text));
  console.log(`Listening on http://${options.host}:${server.port}`);
  await untilSignal(parent);
  await server.close();
}

/** `listen`: a receiver to try webhooks with. */
export function listenCommand(): Command {
  return new Command('listen')
    .description('receive webhooks, verify their signatures and print them')
    .requiredOption('--port <port>', 'the port to listen on; 0 takes a free one', take(wholeNumber(0, 65_535)))
    .requiredOption('--secret <secret>', "the webhook's secret")
    .option('--status <code>', 'what to answer good deliveries with', take(wholeNumber(200, 599)), 200)
    .option(
      '--delay <duration>',
      'how long to wait before answering',
      take(duration(0, hour, 'a duration such as 2s')),
      0,
    )
    .option('--host <host>', 'the address to listen on', '127.0.0.1')
    .addHelpText('after', help)
    .action(receive);
}
