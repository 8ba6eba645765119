import type { SecretRotation } from '../../webhooks/webhook.ts';

/** A webhook's secret, and the one it replaced. */
export interface SigningSecrets {
  readonly secret: string;
  /** The last rotation, ended or not. */
  readonly rotation?: SecretRotation | null;
}

/** Which secrets sign at a moment. */
export interface SecretsInUse {
  /** Makes `x-service-signature`, which has room for one. */
  readonly service: string;
  /** Make `webhook-signature`, the newest first. */
  readonly standard: readonly string[];
}

/**
 * Which secrets sign at `now`: while a rotation overlaps both, afterwards the new one alone.
 * @param now by the database's clock, as the end of the overlap is
 */
export function secretsInUse({ secret, rotation }: SigningSecrets, now: Date): SecretsInUse {
  if (!rotation || now >= rotation.endsAt) return { service: secret, standard: [secret] };
  const { previousSecret, serviceSignature } = rotation;
  return {
    service: serviceSignature === 'previous' ? previousSecret : secret,
    standard: [secret, previousSecret],
  };
}
