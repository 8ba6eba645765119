import type { Configuration } from './config.ts';
import { formatDuration } from './duration.ts';
import type { Standalone } from './start.ts';

function demoChat(baseUrl: string, key: string): string[] {
  const body = '{"model":"demo-echo","messages":[{"role":"user","content":"Hello, gateway"}]}';
  return [
    'Try a chat:',
    `  curl -s ${baseUrl}/chat/completions -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '${body}'`,
  ];
}

function webhook(baseUrl: string, key: string, command: string): string[] {
  const body = '{"url":"http://127.0.0.1:9000","events":["payment.completed"],"secret":"a-long-enough-secret"}';
  const data = '{"payment_id":"pay_1","amount":20,"currency":"usd","credits_added":2000,"user_id":"usr_1"}';
  return [
    'Try a webhook, in other terminals:',
    `  ${command} listen --port 9000 --secret a-long-enough-secret`,
    `  curl -s ${baseUrl}/webhooks -H 'authorization: Bearer ${key}' -H 'content-type: application/json' -d '${body}'`,
    `  ${command} publish --user usr_1 --type payment.completed --data '${data}'`,
  ];
}

/** What has been relaxed, so that nobody takes a trial set-up for a safe one. */
function relaxations({ allowHttp, allowPrivateNetworks }: Configuration): string[] {
  const allowed = [...(allowHttp ? ['plain http'] : []), ...allowPrivateNetworks];
  return allowed.length === 0 ? [] : [`Webhooks may use: ${allowed.join(', ')} (ALLOW_HTTP, ALLOW_PRIVATE_NETWORKS)`];
}

function schedule({ options }: Configuration): string[] {
  const { retryDelays } = options;
  return retryDelays ? [`Retries after: ${retryDelays.map(formatDuration).join(', ') || 'none'}`] : [];
}

/**
 * Everything the start prints, a fact on a line of its own: `Base URL:`, `User:` and `API key:` (the first time only),
 * `Data:`, then what to try.
 */
export function describeStart(running: Standalone, config: Configuration, command: string): string[] {
  const { baseUrl, data, firstKey, demo } = running;
  const key = firstKey?.key ?? '<your API key>';
  return [
    `Base URL: ${baseUrl}`,
    ...(firstKey ? [`User: ${firstKey.userId}`, `API key: ${firstKey.key}`] : []),
    `Data: ${data}`,
    demo
      ? 'Upstream: none set (UPSTREAM_BASE_URL), so a demo with the model demo-echo'
      : `Upstream: ${config.upstream?.name}`,
    ...relaxations(config),
    ...schedule(config),
    ...(firstKey ? ['The key is shown this once.'] : [`A lost key: ${command} keys create --user usr_1`]),
    '',
    ...(demo ? demoChat(baseUrl, key) : []),
    ...webhook(baseUrl, key, command),
  ];
}
