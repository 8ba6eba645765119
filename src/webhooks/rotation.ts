import { randomBytes } from 'node:crypto';
import { refuse } from '../errors.ts';
import { checkStorable, checkUserId, isId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { findOneConfirmed } from '../mongo/confirmed-reads.ts';
import { changeByPipeline, type WebhookDocument, type WebhookModel } from './model.ts';
import { copyProblem } from './pasted-secret.ts';
import type { Secrets } from './secrets.ts';
import { type MadeSecret, type SecretChange, toDetails, type WebhookDetails, webhookNotFound } from './webhook.ts';

/** Whether the overlap of two secrets has not ended yet, by the database's clock; for a pipeline. */
const stillOverlaps = { $gt: ['$rotation.endsAt', '$$NOW'] };

/** A webhook's rotation until its overlap ends, then `null`; for a pipeline. */
export const liveRotation = { $cond: [stillOverlaps, '$rotation', null] };

/** Makes the function that replaces a secret and lets the old one also sign for a while. */
export function createRotateSecret(webhooks: WebhookModel, secrets: Secrets) {
  function replaced(webhook: WebhookDocument, change: ReturnType<typeof toSecretChange>): Record<string, unknown> {
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

  return async function rotateSecret(
    userId: string,
    id: string,
    change: SecretChange,
  ): Promise<WebhookDetails & MadeSecret> {
    checkUserId(userId);
    const checkedChange = toSecretChange(change);
    for (;;) {
      const webhook = isId('wh', id) ? await findOneConfirmed(durableCollection(webhooks), { _id: id, userId }) : null;
      if (!webhook) throw webhookNotFound(id);
      // only if the secret is unchanged: two rotations at once must not lose a secret
      const asFound = { _id: id, userId, secret: webhook.secret };
      const changed = await changeByPipeline(webhooks, asFound, replaced(webhook, checkedChange));
      if (changed) return { ...toDetails(changed), ...(checkedChange.isGenerated && { secret: checkedChange.secret }) };
    }
  };
}

/** Characters. */
const [shortest, longest] = [8, 256] as const;

/**
 * Checks that a secret can be stored unchanged, works as an HMAC key, is what its receiver has, and is hard to guess. Its length counts characters, as in JSON
 * schemas.
 * @throws GatewayError `invalid_type` or `invalid_value`, never with the secret in it
 */
function checkSecret(secret: string): void {
  if (typeof secret !== 'string') refuse('invalid_type', 'secret', 'must be a string');
  const length = secret.length > 2 * longest ? Number.POSITIVE_INFINITY : [...secret].length;
  if (length < shortest || length > longest) {
    refuse('invalid_value', 'secret', `must have ${shortest} to ${longest} characters`);
  }
  // an HMAC key ends where its trailing NULs begin, and half a surrogate pair has no UTF-8 form
  checkStorable('secret', secret);
  const pasted = copyProblem(secret);
  if (pasted) refuse('invalid_value', 'secret', pasted);
  const why = whyGuessable(secret);
  if (why) {
    const advice = 'Send a random secret, or leave it out to get a generated one';
    refuse('invalid_value', 'secret', `is easy to guess: it ${why}. ${advice}`);
  }
}

/** The caller's secret, checked, or a generated one in the form of Standard Webhooks, which the caller must be shown. */
export function chooseSecret(secret: string | undefined): { readonly secret: string; readonly isGenerated: boolean } {
  if (secret === undefined) return { secret: `whsec_${randomBytes(32).toString('base64')}`, isGenerated: true };
  checkSecret(secret);
  return { secret, isGenerated: false };
}

const day = 86_400;
/** The longest overlap of two secrets. Seconds. */
const longestOverlap = 7 * day;

/**
 * Checks a change of secret and fills in the defaults.
 * @throws GatewayError `invalid_type` or `invalid_value`, never with the secret in it
 */
function toSecretChange({ secret, overlapSeconds = day, serviceSignature = 'new' }: SecretChange) {
  const chosen = chooseSecret(secret);
  if (!Number.isInteger(overlapSeconds) || overlapSeconds < 0 || overlapSeconds > longestOverlap) {
    refuse('invalid_value', 'overlap_seconds', `must be a whole number from 0 to ${longestOverlap}`);
  }
  if (serviceSignature !== 'new' && serviceSignature !== 'previous') {
    refuse('invalid_value', 'service_signature', 'must be one of new, previous');
  }
  if (serviceSignature === 'previous' && overlapSeconds === 0) {
    refuse('invalid_value', 'service_signature', 'previous needs an overlap_seconds of 1 or more');
  }
  return { ...chosen, overlapSeconds, serviceSignature };
}

/** A text that repeats a shorter piece is no secret. Characters. */
const shortestPiece = 8;
/** Different characters. */
const minDifferent = 5;
/** Characters that do not follow from the one before them. */
const minUnexpected = 6;

/** Sequences, in both directions; those of the alphabet and of the digits follow from character codes. */
const keyboardRows = ['qwertyuiop', 'qwertzuiop', 'asdfghjkl', 'zxcvbnm', 'yxcvbnm', '1234567890'];

const commonWords = new Set(
  (
    'password passwort passwd passphrase secret secrets secretkey mysecret webhook webhooks webhooksecret changeme ' +
    'changeit letmein welcome administrator default example test testing testtest placeholder iloveyou sunshine ' +
    'princess football baseball monkey dragon master superman trustno qwerty azerty undefined null'
  ).split(' '),
);

function follows(character: string, before: string): boolean {
  const step = (character.codePointAt(0) ?? 0) - (before.codePointAt(0) ?? 0);
  if (Math.abs(step) <= 1) return true;
  return keyboardRows.some((row) => row.includes(before + character) || row.includes(character + before));
}

/** The length of the shortest piece that the text repeats; the last repetition may be incomplete. */
function periodOf(characters: readonly string[]): number {
  for (let period = 1; period <= characters.length / 2; period += 1) {
    if (characters.every((character, i) => i < period || character === characters[i - period])) return period;
  }
  return characters.length;
}

/**
 * Why a secret is easy to guess, in words that complete "it …"; `undefined` if no rule applies. Anyone who has recorded one
 * delivery can try keys offline, so the first things that people type must not be keys. A leading `whsec_` is ignored.
 */
function whyGuessable(secret: string): string | undefined {
  const text = secret.toLowerCase().replace(/^whsec_/, '');
  const characters = [...text];
  const unexpected = characters.filter((character, i) => i === 0 || !follows(character, characters[i - 1] as string));
  // `Password123!` is `password`
  if (commonWords.has(text.replaceAll(/[^\p{L}]/gu, ''))) return 'is a common word, with or without digits and signs';
  // upper and lower case do not protect a word, but they are information in base64
  const cased = [...secret.replace(/^whsec_/, '')];
  if (new Set(cased).size < minDifferent) return `has fewer than ${minDifferent} different characters`;
  if (periodOf(cased) < Math.min(shortestPiece, cased.length)) return 'is a short text that is repeated';
  if (unexpected.length < minUnexpected) return 'is made of sequences such as 1234, abcd, qwerty or aaaa';
  return undefined;
}
