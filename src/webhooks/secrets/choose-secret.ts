import { randomBytes } from 'node:crypto';
import { refuse } from '../../errors.ts';
import { checkStorable } from '../../ids.ts';
import type { SecretChange } from '../webhook.ts';
import { whyGuessable } from './guessable.ts';
import { copyProblem } from './pasted-secret.ts';

const secretLengths = { min: 8, max: 256 } as const;

/**
 * Checks that a secret can be stored unchanged, works as an HMAC key, is what its receiver has, and is hard to guess. Its length counts characters, as in JSON
 * schemas.
 * @throws GatewayError `invalid_type` or `invalid_value`, never with the secret in it
 */
function checkSecret(secret: string): void {
  const { min, max } = secretLengths;
  if (typeof secret !== 'string') refuse('invalid_type', 'secret', 'must be a string');
  const length = secret.length > 2 * max ? Number.POSITIVE_INFINITY : [...secret].length;
  if (length < min || length > max) refuse('invalid_value', 'secret', `must have ${min} to ${max} characters`);
  // an HMAC key ends where its trailing NULs begin, and half a surrogate pair has no UTF-8 form
  checkStorable('secret', secret);
  const pasted = copyProblem(secret);
  if (pasted) refuse('invalid_value', 'secret', pasted);
  const why = whyGuessable(secret);
  if (why) {
    refuse(
      'invalid_value',
      'secret',
      `is easy to guess: it ${why}. Send a random secret, or leave it out to get a generated one`,
    );
  }
}

/** A secret of 32 random bytes, in the form of Standard Webhooks. */
function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** The caller's secret, checked, or a generated one, which the caller must be shown. */
export function chooseSecret(secret: string | undefined): { readonly secret: string; readonly isGenerated: boolean } {
  if (secret === undefined) return { secret: newSecret(), isGenerated: true };
  checkSecret(secret);
  return { secret, isGenerated: false };
}

const day = 86_400;
/** The longest overlap of two secrets. Seconds. */
const longestOverlap = 7 * day;

/** A checked change of secret, with all defaults. */
export type CheckedSecretChange = Required<SecretChange> & { readonly isGenerated: boolean };

/**
 * Checks a change of secret and fills in the defaults.
 * @throws GatewayError `invalid_type` or `invalid_value`, never with the secret in it
 */
export function toSecretChange(change: SecretChange): CheckedSecretChange {
  const { overlapSeconds = day, serviceSignature = 'new' } = change;
  const { secret, isGenerated } = chooseSecret(change.secret);
  if (!Number.isInteger(overlapSeconds) || overlapSeconds < 0 || overlapSeconds > longestOverlap) {
    refuse('invalid_value', 'overlap_seconds', `must be a whole number from 0 to ${longestOverlap}`);
  }
  if (serviceSignature !== 'new' && serviceSignature !== 'previous') {
    refuse('invalid_value', 'service_signature', 'must be one of new, previous');
  }
  if (serviceSignature === 'previous' && overlapSeconds === 0) {
    refuse('invalid_value', 'service_signature', 'previous needs an overlap_seconds of 1 or more');
  }
  return { secret, isGenerated, overlapSeconds, serviceSignature };
}
