import { Command } from 'commander';
import { readConfiguration } from '../config/config.ts';
import { variablesForHelp } from '../config/environment.ts';
import { describeStart } from '../server/next-steps.ts';
import { untilSignal } from '../terminal/until-signal.ts';

const examples = `
Examples:
  $ express-model-gateway start
  $ PORT=8080 UPSTREAM_BASE_URL=https://api.openai.com/v1 UPSTREAM_API_KEY=sk-… express-model-gateway start
  $ UPSTREAMS_FILE=upstreams.json OPENAI_API_KEY=sk-… express-model-gateway start
  $ RETRY_DELAYS=2s,4s,8s express-model-gateway start
`;

async function start(): Promise<void> {
  const parent = process.ppid;
  const config = readConfiguration(process.env);
  const log = (line: string) => console.log(line);
  // only this command loads the gateway itself, so that the others start faster
  const [{ startStandalone }, { createLogger }] = await Promise.all([
    import('../server/start.ts'),
    import('../server/logger.ts'),
  ]);
  const forPeople = process.stderr.isTTY && !config.production;
  const readable = forPeople && { colours: process.stderr.hasColors() };
  const logger = createLogger({ level: config.logLevel, ...(readable && { readable }) });
  const running = await startStandalone(config, log, logger);
  for (const line of describeStart(running, config, 'npx express-model-gateway')) log(line);
  await untilSignal(parent);
  log('Stopping when the open calls have ended. Press Ctrl-C again to stop at once …');
  await running.close();
}

/** `start`: serves until Ctrl-C. */
export function startCommand(): Command {
  return new Command('start')
    .description('run a gateway here; environment variables configure it')
    .addHelpText('after', `${examples}\n${variablesForHelp()}`)
    .action(start);
}
