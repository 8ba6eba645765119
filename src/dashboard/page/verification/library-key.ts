/** `whsec_` and then base64 in the standard alphabet. */
const encodedKey = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The key that libraries for Standard Webhooks take for a secret: `whsec_` and the base64 of its bytes. */
export function libraryKey(secret: string): string {
  if (encodedKey.test(secret)) return secret;
  const bytes = new TextEncoder().encode(secret);
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}
