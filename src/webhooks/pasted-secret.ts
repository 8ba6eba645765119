/**
 * What was copied along with a secret, in words that complete "it …"; `undefined` if nothing was. With it, no signature is
 * right, and nothing else tells why. Never repeats the secret.
 */
export function copyProblem(secret: string): string | undefined {
  if (secret !== secret.trim()) return 'has white space at its beginning or end: remove it';
  if (/^(?:(["'`]).*\1|“.*”|‘.*’)$/s.test(secret)) return 'is in quotes, which are not part of it: remove them';
  if (secret.startsWith('v1,whsec_')) {
    return 'begins with v1, which is how a signature begins in webhook-signature: the secret is what follows, from whsec_ on';
  }
  return undefined;
}
