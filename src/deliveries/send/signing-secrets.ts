import type { SecretRotation } from '../../webhooks/webhook.ts';

/** A webhook's secret, and the one it replaced. */
export interface SigningSecrets {
  readonly secret: string;
  /** The last rotation, whether it has ended or not. */
  readonly rotation?: SecretRotation | null;
}

/** The secrets that sign at one moment. */
export interface SecretsInUse {
  /** Signs `x-service-signature`, which has room for one signature. */
  readonly service: string;
  /** Sign `webhook-signature`, newest first. */
  readonly standard: readonly string[];
}

/**
 * The secrets that sign at `now`: both during the overlap of a rotation, afterwards only the new one.
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
