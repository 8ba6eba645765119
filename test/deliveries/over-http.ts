import mongoose, { type Connection } from 'mongoose';
import type { DeliveryDocument } from '../../src/deliveries/model.ts';
import { type LiveGateway, startGateway, type TestOptions } from '../support/gateway.ts';
import { dropLater, freshUri } from '../support/mongo.ts';
import { eventually } from '../support/until.ts';

export const secret = 'a secret of the receiver';
export const low = {
  type: 'credits.low',
  userId: 'usr_1',
  data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
};

/** A gateway that is called as customers do, and its database. */
export interface Scene extends LiveGateway {
  readonly connection: Connection;
  /** The deliveries as they are stored. */
  readonly stored: mongoose.mongo.Collection<DeliveryDocument>;
  /** Registers a webhook of `usr_1` for `credits.low`. */
  webhook(url: string): Promise<string>;
  /** Publishes an event and waits until its one delivery `holds`. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  published(holds: (delivery: any) => boolean): Promise<any>;
  /** The delivery, as soon as it `holds`. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  delivery(id: string, holds?: (delivery: any) => boolean, within?: number): Promise<any>;
}

export async function startScene(options: TestOptions = {}): Promise<Scene> {
  const connection = await mongoose.createConnection(freshUri()).asPromise();
  const live = await startGateway({
    mongo: connection,
    ...options,
    deliveries: { sweepInterval: 50, ...options.deliveries },
    limits: { writesPerMinute: 1_000_000, readsPerMinute: 1_000_000, ...options.limits },
  });
  const delivery: Scene['delivery'] = (id, holds = () => true, within = 30_000) =>
    eventually(async () => (await live.call('GET', `/v1/deliveries/${id}`)).body, holds, within);

  return {
    ...live,
    connection,
    stored: connection.collection<DeliveryDocument>('gateway_deliveries'),
    async webhook(url) {
      const { body } = await live.call('POST', '/v1/webhooks', { url, events: ['credits.low'], secret });
      return body.id;
    },
    async published(holds) {
      const { id } = await live.gateway.publish(low);
      const list = await eventually(
        async () => (await live.call('GET', `/v1/deliveries?event_id=${id}`)).body.data,
        (data) => data.length > 0,
      );
      return delivery(list[0].id, holds);
    },
    delivery,
    async close() {
      await live.close();
      dropLater(connection);
    },
  };
}
