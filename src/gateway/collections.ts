import type { Connection } from 'mongoose';
import { createAccountingModels } from '../accounting/model.ts';
import { jobIndexes } from '../deliveries/jobs.ts';
import { createDeliveryModel, createRecoveryModel } from '../deliveries/model.ts';
import { createEventModel, createOwnerModel } from '../events/model.ts';
import { createSendRateModel } from '../fairness/model.ts';
import { createKeyModel } from '../keys/model.ts';
import { type CollectionIndexes, indexesOfModel } from '../mongo/schema/indexes.ts';
import { createProcessModel, createRefusalModel } from '../operator/model.ts';
import { createStoredObjectModel } from '../stored/model.ts';
import { createHealthModel, createTallyModel, createWebhookModel } from '../webhooks/model.ts';

/** The models of one gateway; every collection's name starts with the prefix. */
export function createModels(connection: Connection, prefix: string) {
  return {
    keys: createKeyModel(connection, prefix),
    webhooks: createWebhookModel(connection, prefix),
    events: createEventModel(connection, prefix),
    owners: createOwnerModel(connection, prefix),
    deliveries: createDeliveryModel(connection, prefix),
    sendRates: createSendRateModel(connection, prefix),
    recoveries: createRecoveryModel(connection, prefix),
    tallies: createTallyModel(connection, prefix),
    health: createHealthModel(connection, prefix),
    ...createAccountingModels(connection, prefix),
    stored: createStoredObjectModel(connection, prefix),
    refusals: createRefusalModel(connection, prefix),
    processes: createProcessModel(connection, prefix),
  };
}

export type Models = ReturnType<typeof createModels>;

export function everyIndex(models: Models, prefix: string): CollectionIndexes[] {
  return [...Object.values(models).map(indexesOfModel), jobIndexes(prefix)];
}
