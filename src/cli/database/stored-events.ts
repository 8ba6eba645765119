import type { PublishStored } from '../commands/events/publish.ts';
import { readDatabaseSettings } from '../config/database-settings.ts';
import type { Environment } from '../config/environment.ts';

/** Publishes directly in the database of a gateway, whose workers find the event there. */
export function createPublishStored(env: Environment): PublishStored {
  return async ({ user_id, type, data }, idempotencyKey) => {
    // the whole gateway is loaded where it is needed, and not for commands that speak to one
    const { besideGateway } = await import('./beside-gateway.ts');
    const choices = idempotencyKey === undefined ? {} : { idempotencyKey };
    const { idempotencyKey: storedKey, ...published } = await besideGateway(readDatabaseSettings(env), (gateway) =>
      gateway.publish({ userId: user_id, type, data }, choices),
    );
    return { ...published, user_id, data, idempotency_key: storedKey };
  };
}
