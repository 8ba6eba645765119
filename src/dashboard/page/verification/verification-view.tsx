import { useState } from 'preact/hooks';
import { Code } from '../elements/code.tsx';
import { Tabs } from '../elements/inputs/choice.tsx';
import { Field } from '../elements/inputs/field.tsx';
import type { Route } from '../routing/route.ts';
import { Heading } from '../shell/heading.tsx';
import { libraryKey } from './library-key.ts';
import { programs } from './programs.ts';

const [first, ...others] = programs.map(({ name }) => ({ name, value: name.toLowerCase() }));

/** The key of a secret, for both signatures. */
function Keys() {
  const [secret, setSecret] = useState('');
  return (
    <section class="card" aria-labelledby="keys">
      <div class="card-head">
        <h2 id="keys">The key of your secret</h2>
      </div>
      <div class="card-body">
        <p>
          For <code>x-service-signature</code> the key is the secret as it is: the UTF-8 bytes of the whole text, a{' '}
          <code>whsec_</code> at its beginning included. Libraries for Standard Webhooks, which check{' '}
          <code>webhook-signature</code>, take <code>whsec_</code> and then base64: a secret of that form as it is, and
          of any other the base64 of its bytes.
        </p>
        <Field label="Secret" hint="It does not leave this page. Secrets are never shown again, so paste yours.">
          {(field) => (
            <input
              {...field}
              class="mono"
              autocomplete="off"
              spellcheck={false}
              value={secret}
              onInput={(event) => setSecret(event.currentTarget.value)}
            />
          )}
        </Field>
        {secret && <Code title="Key for a Standard Webhooks library" text={libraryKey(secret)} />}
      </div>
    </section>
  );
}

/** How a receiver makes sure that a delivery comes from here. */
export function VerificationView({ route }: { route: Route }) {
  const chosen = programs.find(({ name }) => name.toLowerCase() === route.query.language) ?? programs[0];
  return (
    <>
      <Heading title="Verify deliveries" />
      <section class="card" aria-labelledby="program">
        <div class="card-head">
          <h2 id="program">A receiver that verifies</h2>
        </div>
        <div class="card-body">
          <p>
            Each delivery has <code>x-service-signature</code>: <code>sha256=</code> and, in lowercase hexadecimal, the
            HMAC-SHA256 of the raw body. Verify it over the bytes, before you parse them, and compare in constant time.
            This program reads the secret from <code>WEBHOOK_SECRET</code>, and answers 401 to a wrong signature.
          </p>
          <Tabs route={route} name="language" label="Language" any={first?.name ?? ''} options={others} />
          {chosen && <Code title={chosen.name} text={chosen.code} />}
        </div>
      </section>
      <Keys />
    </>
  );
}
