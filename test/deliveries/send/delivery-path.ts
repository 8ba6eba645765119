import type { AttemptResult } from '../../../src/deliveries/claims.ts';
import { createDeliveryClient, createSend } from '../../../src/deliveries/send.ts';
import { createResolver, isAllowedAddress, parseNetworks } from '../../../src/outbound/addresses.ts';

/** What a test may choose of the way from a signed body to an outcome. */
export interface PathChoices {
  /** Milliseconds. @default 4_000, which a busy machine keeps too */
  readonly deadline?: number;
  /** @default ['127.0.0.1/32'] */
  readonly networks?: readonly string[];
  /** The name server. @default none that answers */
  readonly nameServer?: string;
  /** The one certificate authority that is trusted, in PEM. @default the system's */
  readonly ca?: string;
  /** Milliseconds. @default as in production */
  readonly connectTimeout?: number;
}

/** The result of one attempt, with the code it is recorded under; `delivered` for a success. */
export type Outcome = Omit<AttemptResult, 'code'> & { readonly code: string };

/** Sends as a gateway does: the same clients, guard, resolver and deadline. */
export function openDeliveryPath(choices: PathChoices = {}) {
  const { deadline = 4_000, networks = ['127.0.0.1/32'], nameServer = '127.0.0.1:9', ca, connectTimeout } = choices;
  const opened = parseNetworks(networks);
  const client = createDeliveryClient({
    allowAddress: (address) => isAllowedAddress(address, opened),
    resolve: createResolver({ timeout: Math.max(2_000, deadline / 2), servers: [nameServer] }),
    ...(ca !== undefined && { ca }),
    ...(connectTimeout !== undefined && { connectTimeout }),
  });
  const send = createSend(client, deadline);
  return {
    /** As hosts have them. */
    interceptors: client.interceptors,
    async post(
      url: string,
      body = Buffer.from('{"id":"evt_1"}'),
      maySend = () => true,
      sign: (sent: Buffer) => Record<string, string> = () => ({}),
    ): Promise<Outcome> {
      const result = await send({
        url,
        headers: { 'content-type': 'application/json' },
        body,
        sign,
        maySend,
      });
      return { ...result, code: result.code ?? 'delivered' };
    },
    close: () => client.close(),
  };
}

export type DeliveryPath = ReturnType<typeof openDeliveryPath>;
