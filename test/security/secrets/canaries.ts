import { randomBytes } from 'node:crypto';

const random = () => randomBytes(18).toString('hex');

// Values that the whole product works with and must never show.
export const secret = `canary-webhook-${random()}`;
export const rotated = `whsec_${Buffer.from(`canary-rotated-${random()}`).toString('base64')}`;
export const upstreamKey = `sk-canary-upstream-${random()}`;
export const sealingKey = randomBytes(32).toString('base64');
export const oldSealingKey = randomBytes(32).toString('base64');
export const strangersToken = `canary-stranger-${random()}`;
export const hostToken = `canary-host-${random()}`;
export const databasePassword = `canary-database-${random()}`;
export const inModelCall = `canary-call-${random()}`;
export const inWebhookUrl = `canary-url-${random()}`;
export const credentialsInPublish = `canary-payload-secret-${random()}`;
