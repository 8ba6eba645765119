import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { programs } from '../../src/dashboard/page/deliveries/programs.ts';
import { installTarball } from '../package/tarball.ts';
import { signBody, standardWebhookSignature } from '../support/signature.ts';
import { blockWith, output, type RunningProgram, startProgram } from './programs.ts';
import { go, java, php, python, type Runtime, skipWithout } from './runtimes.ts';

const document = 'docs/receiving.md';
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
  { name: 'Java', language: 'java', text: 'HttpServer', runtime: java },
  { name: 'PHP', language: 'php', text: 'hash_hmac', runtime: php },
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
      let program: RunningProgram;
      before(async function () {
        if (runtime) skipWithout(this, runtime);
        program = await startProgram(folder, blockWith(document, language, text), { WEBHOOK_SECRET: secret });
      });
      after(() => program?.stop());

      it('accepts a delivery that is signed with its secret', async () => {
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

  it('include every program that the dashboard shows', () => {
    const documented = receivers.map(({ language, text }) => blockWith(document, language, text).code.trim());
    expect(programs.map(({ name }) => name)).to.deep.equal(['Node.js', 'Python', 'Go', 'Java', 'PHP']);
    for (const { name, code } of programs) expect(documented.includes(code), name).to.equal(true);
  });

  const keys: { language: string; text: string; runtime?: Runtime }[] = [
    { language: 'sh', text: 'base64' },
    { language: 'js', text: 'base64' },
    { language: 'python', text: 'b64encode', runtime: python },
    { language: 'go', text: 'StdEncoding', runtime: go },
  ];
  for (const { language, text, runtime } of keys) {
    it(`compute the key for a Standard Webhooks library in ${language}`, async function () {
      if (runtime) skipWithout(this, runtime);
      const key = await output(folder, blockWith(document, language, text), { WEBHOOK_SECRET: secret });
      expect(key).to.equal('whsec_YS1sb25nLWVub3VnaC1zZWNyZXQ=');
      expect(standardWebhookSignature(id, 0, body, key)).to.equal(standardWebhookSignature(id, 0, body, secret));
    });
  }
});
