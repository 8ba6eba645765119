import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { signBody, standardWebhookSignature } from '../../src/deliveries/send/signature.ts';
import { installTarball } from '../package/tarball.ts';
import { blockWith, type Listening, listen, output } from './programs.ts';
import { go, python, type Runtime, skipWithout } from './runtimes.ts';

const document = 'docs/webhooks.md';
const secret = 'a-long-enough-secret';
const { code: body } = blockWith(document, 'json', '"credits.low"');
const { id } = JSON.parse(body) as { id: string };

/** A delivery as the gateway sends it, signed with this secret. */
function delivery(signedWith: string): RequestInit {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  return {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'x-service-signature': signBody(body, signedWith),
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': standardWebhookSignature(id, timestamp, body, signedWith),
    },
  };
}

const receivers: { name: string; language: string; text: string; runtime?: Runtime }[] = [
  { name: 'Express', language: 'ts', text: 'webhookReceiver({' },
  { name: 'Fastify', language: 'ts', text: "from 'fastify'" },
  { name: 'Next.js', language: 'ts', text: 'verifySignature(rawBody' },
  { name: "OpenAI's client", language: 'ts', text: 'openai.webhooks.unwrap' },
  { name: 'Python', language: 'python', text: 'HTTPServer', runtime: python },
  { name: 'Go', language: 'go', text: 'ListenAndServe', runtime: go },
];

describe('the receivers in the documentation', function () {
  this.timeout(180_000);
  let folder: string;
  before(async () => {
    ({ folder } = await installTarball());
  });
  after(() => rm(folder, { recursive: true, force: true }));

  for (const { name, language, text, runtime } of receivers) {
    describe(name, () => {
      let program: Listening;
      before(async function () {
        if (runtime) skipWithout(this, runtime);
        program = await listen(folder, blockWith(document, language, text), { WEBHOOK_SECRET: secret });
      });
      after(() => program?.stop());

      it('takes a delivery that is signed with its secret', async () => {
        const response = await fetch(program.url, delivery(secret));
        expect(response.status, program.printed()).to.equal(200);
        expect(await response.json()).to.deep.equal({ received: true });
        // what it prints comes by another way than its answer
        while (!program.printed().includes(id)) await sleep(20);
        expect(program.printed()).to.include('credits.low');
      });

      it('refuses a delivery that is signed with another secret', async () => {
        const response = await fetch(program.url, delivery('another-secret'));
        expect(response.status, program.printed()).to.equal(401);
        expect(await response.json()).to.have.property('error');
      });
    });
  }

  const keys: { language: string; text: string; runtime?: Runtime }[] = [
    { language: 'sh', text: 'base64' },
    { language: 'js', text: 'base64' },
    { language: 'python', text: 'b64encode', runtime: python },
    { language: 'go', text: 'StdEncoding', runtime: go },
  ];
  for (const { language, text, runtime } of keys) {
    it(`makes the key for a Standard Webhooks library in ${language}`, async function () {
      if (runtime) skipWithout(this, runtime);
      const key = await output(folder, blockWith(document, language, text), { WEBHOOK_SECRET: secret });
      expect(key).to.equal('whsec_YS1sb25nLWVub3VnaC1zZWNyZXQ=');
      expect(standardWebhookSignature(id, 0, body, key)).to.equal(standardWebhookSignature(id, 0, body, secret));
    });
  }
});
