import { checkUserId, isId } from '../../ids.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { findOneConfirmed } from '../../mongo/confirmed-reads.ts';
import { changeByPipeline, type WebhookDocument, type WebhookModel } from '../model.ts';
import { type MadeSecret, type SecretChange, toDetails, type WebhookDetails, webhookNotFound } from '../webhook.ts';
import { type CheckedSecretChange, toSecretChange } from './choose-secret.ts';
import type { Secrets } from './secrets.ts';

/** Replaces the secret of an account's webhook. */
export type RotateSecret = (userId: string, id: string, change: SecretChange) => Promise<WebhookDetails & MadeSecret>;

/** Whether the overlap of two secrets has not ended yet, by the database's clock; for a pipeline. */
const stillOverlaps = { $gt: ['$rotation.endsAt', '$$NOW'] };

/** A webhook's rotation until its overlap ends, then `null`; for a pipeline. */
export const liveRotation = { $cond: [stillOverlaps, '$rotation', null] };

/** Makes the function that replaces a secret and lets the old one also sign for a while. */
export function createRotateSecret(webhooks: WebhookModel, secrets: Secrets): RotateSecret {
  function replaced(webhook: WebhookDocument, change: CheckedSecretChange): Record<string, unknown> {
    const { secret, overlapSeconds, serviceSignature } = change;
    const { _id } = webhook;
    const sealed = { secret: secrets.seal(_id, 'secret', secret) };
    if (overlapSeconds === 0) return { ...sealed, rotation: '$$REMOVE' };

    const current = secrets.open(webhook);
    const overlap = { endsAt: { $add: ['$$NOW', overlapSeconds * 1_000] }, serviceSignature };
    if (secret !== current.secret) {
      return {
        ...sealed,
        rotation: { previousSecret: secrets.seal(_id, 'previousSecret', current.secret), ...overlap },
      };
    }
    // a repeated request must not drop the secret that receivers still have
    if (!current.rotation) return sealed;
    const previousSecret = secrets.seal(_id, 'previousSecret', current.rotation.previousSecret);
    return { ...sealed, rotation: { $cond: [stillOverlaps, { previousSecret, ...overlap }, '$$REMOVE'] } };
  }

  return async function rotateSecret(userId, id, change) {
    checkUserId(userId);
    const checkedChange = toSecretChange(change);
    for (;;) {
      const webhook = isId('wh', id) ? await findOneConfirmed(durableCollection(webhooks), { _id: id, userId }) : null;
      if (!webhook) throw webhookNotFound(id);
      // only if the secret is unchanged: two rotations at once must not lose a secret
      const changed = await changeByPipeline(
        webhooks,
        { _id: id, userId, secret: webhook.secret },
        replaced(webhook, checkedChange),
      );
      if (changed) return { ...toDetails(changed), ...(checkedChange.isGenerated && { secret: checkedChange.secret }) };
    }
  };
}
