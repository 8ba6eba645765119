import { createModelGateway } from '../../src/index.ts';
import type { Cluster } from './cluster/cluster.ts';
import { manners, type Receivers } from './receivers.ts';

/** Registers one webhook for each of these receivers. @param names @default all */
export async function registerWebhooks(
  cluster: Cluster,
  { secretKey, secret }: { readonly secretKey: string; readonly secret: string },
  receivers: Receivers,
  names: readonly (typeof manners)[number][] = manners,
) {
  const gateway = await createModelGateway({
    mongo: cluster.connection,
    secretKeys: [secretKey],
    allowHttp: true,
    allowPrivateNetworks: ['127.0.0.0/8'],
  });
  const made: { id: string; name: string }[] = [];
  for (const name of names) {
    const webhook = { url: receivers.url(name), events: ['payment.completed'], secret };
    const { id } = await gateway.webhooks.create('usr_1', webhook);
    made.push({ id, name });
  }
  await gateway.close();
  return made;
}
