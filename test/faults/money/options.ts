import type { ModelGatewayOptions } from '../../../src/index.ts';

/** Who makes model calls: one that never runs out, one that does again and again, and one that may make few calls a minute. */
export const accounts = { rich: 'usr_rich', poor: 'usr_poor', limited: 'usr_limited' } as const;
export type Account = keyof typeof accounts;

/** Credits for a million tokens, which are micro-credits for one. */
const price = { input: 100, output: 4_000 } as const;
export const maxTokens = 100;
/** What a call's body comes to at most. Bytes. */
const bodyLimit = 400;
/** What is reserved for a call at most. Micro-credits. */
export const largestReservation = (bodyLimit / 4) * price.input + maxTokens * price.output;
/** What calls cost at most that a gateway answers in the moments before it is killed. Micro-credits. */
export const unrecorded = 5 * largestReservation;
/** Calls a minute of the limited account. */
export const requestsPerMinute = 30;
/** Answered calls a day of the rich account. */
export const dailyQuota = 40;
/** Percent of the quota. */
export const thresholds = [50, 100] as const;

/** What a call costs that used so many tokens. Micro-credits. */
export function costOf({ inputTokens, outputTokens }: { inputTokens: number; outputTokens: number }): number {
  return inputTokens * price.input + outputTokens * price.output;
}

/** The base URLs of the suite's providers: of models, of WebSockets, and of files. */
export interface UpstreamUrls {
  readonly models: string;
  readonly sockets: string;
  readonly files: string;
}

/** The options by which a gateway meters, charges and limits; the same in every process. */
export function moneyOptions({ models, sockets, files }: UpstreamUrls) {
  return {
    upstreams: [
      { name: 'files', baseUrl: files, models: ['none'] },
      { name: 'suite', baseUrl: models, models: ['m'], priority: 1 },
      { name: 'sockets', baseUrl: sockets, models: ['talk'], priority: 1 },
    ],
    // a WebSocket is admitted like a call whose output nobody has limited
    credits: { prices: { '*': price }, lowThreshold: 1, expectedOutputTokens: maxTokens },
    limits: {
      perUser: ({ userId }) => (userId === accounts.limited ? { requestsPerMinute } : undefined),
      shared: true,
    },
    quotas: {
      perUser: (userId) => (userId === accounts.rich ? { unit: 'requests', daily: dailyQuota } : undefined),
      thresholds,
    },
  } as const satisfies Partial<ModelGatewayOptions>;
}
