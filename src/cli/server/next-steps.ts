import { BlockList } from 'node:net';
import { formatDuration } from '../../options/kinds.ts';
import { type Configuration, describeProcesses } from '../config/config.ts';
import type { Standalone } from './start.ts';

function demoChat(baseUrl: string, key: string): string[] {
  const body = '{"model":"demo-echo","messages":[{"role":"user","content":"Hello, gateway"}]}';
  return [
    'Try a chat:',
    `  curl -s ${baseUrl}/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '${body}'`,
    '',
  ];
}

/** Where the gateway is, for those who call it: OpenAI's clients want it with `/v1`, and the commands take both. */
function access(baseUrl: string, key: string): string[] {
  return [
    "For OpenAI's clients:",
    `  export OPENAI_BASE_URL=${baseUrl} OPENAI_API_KEY=${key}`,
    'For the commands, which --help lists:',
    `  export EXPRESS_MODEL_GATEWAY_BASE_URL=${baseUrl.replace(/\/v1$/, '')} EXPRESS_MODEL_GATEWAY_API_KEY=${key}`,
    '',
  ];
}

function webhook(command: string): string[] {
  const data = '{"payment_id":"pay_1","amount":20,"currency":"usd","credits_added":2000,"user_id":"usr_1"}';
  return [
    'Try a webhook, a receiver in one terminal, the rest in another, with the exports above:',
    `  ${command} listen --port 9000 --secret a-long-enough-secret`,
    '',
    `  ${command} webhooks create http://127.0.0.1:9000 --event payment.completed --secret a-long-enough-secret`,
    `  ${command} events publish --user usr_1 --type payment.completed --data '${data}'`,
    `  ${command} deliveries list`,
  ];
}

/** Whether webhooks may call the suggested receiver. */
function canReachThisMachine({ allowHttp, allowPrivateNetworks }: Configuration): boolean {
  const allowed = new BlockList();
  for (const [address = '', bits] of allowPrivateNetworks.map((network) => network.split('/'))) {
    allowed.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return allowHttp && allowed.check('127.0.0.1');
}

/** Which of the parts that are off by default are on. */
function parts({ options: { limits, quotas, credits, eventTypes } }: Configuration): string[] {
  const names = [
    (limits?.perKey ?? limits?.perUser) && 'rate limits',
    quotas && 'quotas',
    credits && 'prepaid credits',
    eventTypes && `event types (${Object.keys(eventTypes).join(', ')})`,
  ].filter(Boolean);
  return names.length > 0 ? [`With: ${names.join(', ')}`] : [];
}

/** What webhooks may use and why, so that a trial setup is not mistaken for a safe one, and a refusal is no surprise. */
function webhookRules({ allowHttp, allowPrivateNetworks, allowedBecause, options }: Configuration): string {
  const ownRules = allowPrivateNetworks.join(', ') || 'public addresses only';
  const networks = options.deliveries?.proxy === undefined ? ownRules : 'the addresses that WEBHOOK_PROXY lets through';
  return `Webhooks may use: ${allowHttp ? 'plain http' : 'https only'}, ${networks} (${allowedBecause}; see ALLOW_HTTP, ALLOW_PRIVATE_NETWORKS)`;
}

function browsers({ corsOrigins = [] }: Configuration): string[] {
  const origins = corsOrigins.includes('*') ? 'every origin' : corsOrigins.join(', ');
  return origins ? [`Browsers: pages of ${origins} may call /v1 (CORS_ORIGINS)`] : [];
}

/** What this process uses, whatever its role. */
function settings({ data, metricsUrl, demo }: Standalone, config: Configuration): string[] {
  const { retryDelays } = config.options;
  return [
    `Data: ${data}`,
    ...(config.workersBecause === undefined ? [] : [`Processes: ${describeProcesses(config)}`]),
    ...(metricsUrl ? [`Metrics: ${metricsUrl}`] : []),
    demo
      ? 'Upstream: none set (UPSTREAM_BASE_URL or UPSTREAMS_FILE), so a demo with the model demo-echo'
      : `Upstream: ${config.upstreams?.map(({ name }) => name).join(', ')}`,
    ...config.warnings.map((warning) => `Warning: ${warning}`),
    ...parts(config),
    webhookRules(config),
    ...(retryDelays ? [`Retries after: ${retryDelays.map(formatDuration).join(', ') || 'none'}`] : []),
  ];
}

function keyLines({ firstKey, keyToMake }: Standalone, command: string): string[] {
  if (firstKey) return ['The key is shown this once.'];
  const create = `${command} keys create --database --user`;
  if (!keyToMake) return [`A lost key: ${create} usr_1`];
  const { userId, scopes } = keyToMake;
  return [
    `${userId} has no API key, and with NODE_ENV=production the start prints one in a terminal alone. Make one:`,
    `  ${create} ${userId} --scope ${scopes.join(',')}`,
  ];
}

/**
 * Everything the start prints, one fact a line: `Base URL:`, `Dashboard:`, `User:` and `API key:` (the first time only,
 * and not into a log of production), `Data:`, then what to try. A worker has no API: it prints where its probes are.
 */
export function describeStart(running: Standalone, config: Configuration, command: string): string[] {
  const { baseUrl, dashboardUrl, firstKey, demo } = running;
  if (config.role === 'worker') {
    return ['Role: worker, without an API', `Probes: ${new URL('/readyz', baseUrl)}`, ...settings(running, config)];
  }
  const key = firstKey?.key ?? '<your API key>';
  return [
    `Base URL: ${baseUrl}`,
    `Dashboard: ${dashboardUrl} (sign in with an API key)`,
    ...browsers(config),
    ...(firstKey ? [`User: ${firstKey.userId}`, `API key: ${firstKey.key}`] : []),
    ...settings(running, config),
    ...keyLines(running, command),
    '',
    ...access(baseUrl, key),
    ...(demo ? demoChat(baseUrl, key) : []),
    ...(canReachThisMachine(config) ? webhook(command) : []),
    ...(config.options.credits
      ? ['Give an account credits:', `  ${command} credits top-up --user usr_1 --credits 500`]
      : []),
  ];
}
