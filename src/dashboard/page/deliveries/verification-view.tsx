import { useState } from 'preact/hooks';
import type { Route } from '../data/route.ts';
import { Tabs } from '../elements/filters.tsx';
import { TextField, verbatim } from '../elements/form.tsx';
import { Card, Code, Heading } from '../elements/view.tsx';
import { programs } from './programs.ts';

const [first, ...others] = programs.map(({ name }) => ({ name, value: name.toLowerCase() }));

/** How a receiver makes sure that a delivery comes from here. */
export function VerificationView({ route }: { route: Route }) {
  const chosen = programs.find(({ name }) => name.toLowerCase() === route.query.language) ?? programs[0];
  return (
    <>
      <Heading title="Verify deliveries" />
      <Card text id="program" title="A receiver that verifies">
        <p>
          Each delivery has <code>x-service-signature</code>: <code>sha256=</code> and, in lowercase hexadecimal, the
          HMAC-SHA256 of the raw body. Verify it over the bytes, before you parse them, and compare in constant time.
          This program reads the secret from <code>WEBHOOK_SECRET</code>, and answers 401 to a wrong signature.
        </p>
        <Tabs route={route} name="language" label="Language" any={first?.name ?? ''} options={others} />
        {chosen && <Code title={chosen.name} text={chosen.code} />}
      </Card>
      <Keys />
    </>
  );
}

/** The key of a secret, for both signatures. */
function Keys() {
  const [secret, setSecret] = useState('');
  return (
    <Card text id="keys" title="The key of your secret">
      <p>
        For <code>x-service-signature</code> the key is the secret as it is: the UTF-8 bytes of the whole text, a{' '}
        <code>whsec_</code> at its beginning included. Libraries for Standard Webhooks, which check{' '}
        <code>webhook-signature</code>, take <code>whsec_</code> and then base64: a secret of that form as it is, and of
        any other the base64 of its bytes.
      </p>
      <TextField
        label="Secret"
        hint="It does not leave this page. Secrets are never shown again, so paste yours."
        input={verbatim}
        value={secret}
        onText={setSecret}
      />
      {secret && <Code title="Key for a Standard Webhooks library" text={libraryKey(secret)} />}
    </Card>
  );
}

/** `whsec_` and then base64 in the standard alphabet. */
const encodedKey = /^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The key that libraries for Standard Webhooks take for a secret: `whsec_` and the base64 of its bytes. */
function libraryKey(secret: string): string {
  if (encodedKey.test(secret)) return secret;
  const bytes = new TextEncoder().encode(secret);
  return `whsec_${btoa(String.fromCharCode(...bytes))}`;
}
