import { Command } from 'commander';
import { type Configuration, readConfiguration } from '../config/config.ts';
import { variablesForHelp } from '../config/environment.ts';
import { checkAddress } from '../server/address.ts';
import { describeStart } from '../server/next-steps.ts';
import { leave, notifyReady, processNumber, startProcesses, untilToldToStop } from '../server/processes.ts';
import { untilSignal } from '../terminal/terminal.ts';

const examples = `
Examples:
  $ express-model-gateway start
  $ PORT=8080 UPSTREAM_BASE_URL=https://api.openai.com/v1 UPSTREAM_API_KEY=sk-… express-model-gateway start
  $ UPSTREAMS_FILE=upstreams.json OPENAI_API_KEY=sk-… express-model-gateway start
  $ RETRY_DELAYS=2s,4s,8s express-model-gateway start
`;

const log = (line: string) => console.log(line);

/** Starts a gateway in this process. @param number of this process among several */
async function startHere(config: Configuration, number = 0) {
  // only this command loads the gateway itself, so that the others start faster
  const [{ startStandalone }, { createLogger }] = await Promise.all([
    import('../server/start.ts'),
    import('../server/logger.ts'),
  ]);
  const readable = process.stderr.isTTY && !config.production && { colours: process.stderr.hasColors() };
  const logger = createLogger({
    level: config.logLevel,
    ...(readable && { readable }),
    // on a developer's machine it is no warning, but one of the lines that the start prints
    ...(config.isOnTrial && { printedField: 'allowPrivateNetworks' }),
  });
  const { metrics } = config;
  const ownMetrics = metrics && { metrics: { ...metrics, port: metrics.port && metrics.port + number } };
  const isForPeople = process.stdout.isTTY || !config.production;
  const running = await startStandalone({ ...config, ...ownMetrics }, { log, logger, isForPeople });
  if (number === 0) for (const line of describeStart(running, config, 'npx express-model-gateway')) log(line);
  return running;
}

async function startOneOfSeveral(config: Configuration, number: number): Promise<void> {
  const stopSignal = untilToldToStop();
  try {
    const running = await startHere(config, number);
    notifyReady();
    await stopSignal;
    await running.close();
  } finally {
    leave();
  }
}

const starting = 'Starting. This takes some seconds the first time …';
const stopping = 'Stopping when the open calls have ended. Press Ctrl-C again to stop at once …';

async function start(): Promise<void> {
  const parent = process.ppid;
  const config = readConfiguration(process.env);
  const number = processNumber(process.env);
  if (number !== undefined) return startOneOfSeveral(config, number);
  await checkAddress(config);
  if (process.stdout.isTTY) log(starting);
  if (config.workers > 1) {
    const processes = startProcesses(config.workers, log);
    await Promise.race([untilSignal(parent), processes.failed]);
    log(stopping);
    return processes.stop();
  }
  const running = await startHere(config);
  await untilSignal(parent);
  log(stopping);
  await running.close();
}

export function startCommand(): Command {
  return new Command('start')
    .description('run a gateway here; environment variables configure it')
    .addHelpText('after', `${examples}\n${variablesForHelp()}`)
    .action(start);
}
