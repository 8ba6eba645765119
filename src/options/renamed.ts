/** Names that options once had, and where they are now. */
export const moved: Readonly<Record<string, string>> = {
  modelAttempts: 'modelCalls.attempts',
  exposeUpstream: 'modelCalls.exposeUpstream',
  abortOnDisconnect: 'modelCalls.abortOnDisconnect',
  streamHeartbeat: 'modelCalls.streamHeartbeat',
  backgroundPollInterval: 'background.pollInterval',
  backgroundTimeout: 'background.timeout',
  maxSockets: 'sockets.maxPerAccount',
  socketIdleTimeout: 'sockets.idleTimeout',
  maxWebhooks: 'limits.webhooks',
  maxApiKeys: 'limits.apiKeys',
  maxFiles: 'limits.files',
  maxFileBytes: 'limits.fileBytes',
  managementRateLimit: 'limits.writesPerMinute',
  readRateLimit: 'limits.readsPerMinute',
  modelBodyLimit: 'limits.modelBodyBytes',
  bodyMemory: 'limits.bodyMemory',
  keyGracePeriod: 'modelCalls.keyGracePeriod',
  honorRetryAfter: 'deliveries.honorRetryAfter',
  attemptTimeout: 'deliveries.attemptTimeout',
  concurrency: 'deliveries.concurrency',
  concurrencyPerAccount: 'deliveries.concurrencyPerAccount',
  concurrencyPerWebhook: 'deliveries.concurrencyPerWebhook',
  retentionDays: 'deliveries.retentionDays',
  sweepInterval: 'deliveries.sweepInterval',
  changeStreams: 'deliveries.changeStreams',
  webhookProxy: 'deliveries.proxy',
  disableAfterDays: 'deliveries.disableAfterDays',
  disableOnGone: 'deliveries.disableOnGone',
  onDisable: 'deliveries.onDisable',
};

/** What once were options and are the same in every gateway now. */
export const constants = {
  modelRetryWait: '2 s',
  backgroundPollLimit: 'thirty times background.pollInterval',
  webhookBodyLimit: '256 KiB',
  maxSocketMessageBytes: '16 MiB',
  storedRetentionDays: '30 days',
  usageBacklog: '100,000 records',
  processInterval: '10 s',
  recoverRate: '50 a second',
  'limits.syncInterval': '200 ms',
  'limits.eventWindow': '5 min',
} as const;

/** What once were options, and what says the same now. */
export const replaced: Readonly<Record<string, string>> = {
  'upstreams[].keyHeader':
    "write the key into headers, as { 'x-api-key': '…' } or { authorization: 'Bearer …' }, without apiKey",
  servesRequests: 'a process that makes deliveries is a worker unless it uses gateway.router',
};

/** What an error says about the name of an option that there is no more; `undefined` for any other name. */
export function renamed(path: string): string | undefined {
  if (Object.hasOwn(moved, path)) return `is called ${moved[path]} now`;
  // of which upstream it is makes no difference
  const general = path.replace(/\[\d+\]/, '[]');
  if (Object.hasOwn(replaced, general)) return `is no option any more: ${replaced[general]}`;
  if (!Object.hasOwn(constants, path)) return undefined;
  return `is no option any more: it is fixed at ${constants[path as keyof typeof constants]}`;
}
