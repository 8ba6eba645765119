import { Command, InvalidArgumentError } from 'commander';
import { copyProblem } from '../../../webhooks/pasted-secret.ts';
import { throughApi } from '../../client/api-command.ts';
import { createContext, type GatewayOptions } from '../../client/context.ts';
import { several } from '../../client/flags.ts';
import { allowedBy, duration, type Parser, wholeNumber } from '../../config/parsers.ts';
import { wrongUse } from '../../terminal/command-failure.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { untilSignal } from '../../terminal/until-signal.ts';
import { forward } from './forward.ts';

interface Options extends GatewayOptions {
  readonly host: string;
  readonly port?: number;
  readonly secret?: string;
  readonly forwardTo?: string;
  readonly type?: readonly string[];
  readonly status: number;
  readonly delay: number;
}

const help = `
Examples:
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret --status 500    # see retries
  $ express-model-gateway listen --port 9000 --secret a-long-enough-secret --delay 31s     # see time-outs
  $ express-model-gateway listen --forward-to http://localhost:3000/hook                   # needs no webhook
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

/**
 * @throws CommandFailure for a secret that no webhook has: no signature would be right with it. It is not commander's error,
 * which would repeat the secret
 */
function webhookSecret(text: string): string {
  const problem = text === '' ? 'is empty: is a variable unset?' : copyProblem(text);
  if (problem) throw wrongUse(`--secret: it ${problem}`);
  return text;
}

async function receive({ port, secret, ...options }: Options): Promise<void> {
  if (port === undefined || secret === undefined) {
    throw wrongUse('Give --port and --secret to receive webhooks here, or --forward-to to pass events on.');
  }
  const parent = process.ppid;
  const { listen } = await import('../../server/test-receiver.ts');
  const server = await listen({ ...options, port, secret }, (text) => console.log(text));
  console.log(`Listening on http://${options.host}:${server.port}`);
  await untilSignal(parent);
  await server.close();
}

/** `listen`: a receiver to try webhooks with, or a line to one on this machine. */
export function listenCommand(terminal: Terminal): Command {
  const command = new Command('listen')
    .description("receive webhooks, verify their signatures and print them; or forward an account's events")
    .option('--port <port>', 'the port to listen on; 0 takes a free one', take(wholeNumber(0, 65_535)))
    .option(
      '--secret <secret>',
      "the webhook's secret; with --forward-to a new one, which is printed, when it is left out",
      webhookSecret,
    )
    .option('--status <code>', 'what to answer good deliveries with', take(wholeNumber(200, 599)), 200)
    .option(
      '--delay <duration>',
      'how long to wait before answering',
      take(duration(0, hour, 'a duration such as 2s')),
      0,
    )
    .option('--host <host>', 'the address to listen on', '127.0.0.1')
    .option('--forward-to <url>', "pass on your account's new events, signed as deliveries are, while this runs")
    .option('--type <types>', 'with --forward-to: only these types, separated by commas', several)
    .addHelpText('after', help)
    .action(async ({ forwardTo, ...options }: Options) => {
      if (forwardTo === undefined) return receive(options);
      const { secret, type } = options;
      const choices = { ...(secret !== undefined && { secret }), ...(type && { type }) };
      await forward(createContext(terminal, options), { forwardTo, ...choices });
    });
  return throughApi(command);
}
