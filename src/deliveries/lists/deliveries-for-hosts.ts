import type { DeliveryPage, ListedDelivery, ShownDelivery } from './delivery-page.ts';
import type { DeliveryHistory } from './history.ts';

/** A delivery as a host's own code reads it. The attempts have the receiver's responses only where one delivery is read. */
export type Delivery<Stored = ListedDelivery> = Omit<Stored, '_id'> & {
  /** `dlv_…` */
  readonly id: string;
};

/** The deliveries of any account, for a host's own code. */
export interface DeliveriesForHosts {
  /**
   * Newest first.
   * @throws GatewayError `invalid_value`
   */
  list(
    userId: string,
    page?: DeliveryPage,
  ): Promise<{
    readonly deliveries: Delivery[];
    readonly hasMore: boolean;
    /** What the next page's `after` is, if that is not the id of the last delivery of this page. */
    readonly nextAfter?: string;
  }>;
  /** @throws GatewayError `delivery_not_found`, also for a delivery of another account */
  get(userId: string, id: string): Promise<Delivery<ShownDelivery>>;
}

const toDelivery = <Stored extends ListedDelivery>({ _id: id, ...delivery }: Stored) => ({ id, ...delivery });

/** The history of deliveries without what only the database knows them by. */
export function deliveriesForHosts(history: DeliveryHistory): DeliveriesForHosts {
  return {
    async list(userId, page) {
      const { deliveries, ...more } = await history.list(userId, page);
      return { deliveries: deliveries.map(toDelivery), ...more };
    },
    get: async (userId, id) => toDelivery(await history.get(userId, id)),
  };
}
