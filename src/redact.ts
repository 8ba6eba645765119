/** Those of some values that are long enough to be secrets, longest first. */
export function longSecrets(values: readonly string[]): string[] {
  return values.filter(({ length }) => length >= 8).sort((a, b) => b.length - a.length);
}

/** A text with `[redacted]` in place of secrets. */
export function redact(text: string, secrets: readonly string[]): string {
  return secrets.reduce((redacted, secret) => redacted.replaceAll(secret, '[redacted]'), text);
}
