import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { python, skipWithout } from '../documentation/runtimes.ts';
import { root } from '../package/tarball.ts';
import type { LiveGateway } from '../support/gateway.ts';
import { operations } from '../support/spec.ts';
import { type ClientGenerator, type Outcome, type Plan, run } from './generated-client.ts';
import { goClient } from './go/generator.ts';
import { goOpenapiGeneratorClient } from './go-openapi-generator/generator.ts';
import { javaClient } from './java/generator.ts';
import { type Answer, customType, matches, recordAnswers, startForClients } from './live.ts';
import { planCalls } from './plan.ts';
import { pythonClient, pythonPackages } from './python/generator.ts';
import { urllib3Client } from './python-urllib3/generator.ts';
import { rustClient } from './rust/generator.ts';
import { heyApiClient, kubbClient, orvalClient, typescriptFetchClient } from './typescript/generator.ts';

/** Which fields a JSON value has, at which paths. What is null or empty may be absent in what a client makes of it. */
function fieldsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => fieldsOf(item, `${path}[]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) =>
    item === null ? [] : [`${path}.${key}`, ...fieldsOf(item, `${path}.${key}`)],
  );
}

/** What answers with the type of an event, or with several. */
const readsEventType = [
  ...['createWebhook', 'listWebhooks', 'retrieveWebhook', 'updateWebhook', 'testWebhook'],
  ...['listDeliveries', 'retrieveDelivery', 'resendDelivery'],
  ...['publishEvent', 'listEvents', 'retrieveEvent', 'listEventTypes'],
];

/** What has come of a call, and what the gateway has answered to it, if it got there. */
interface Call extends Outcome {
  readonly answer?: Answer | undefined;
}

/** Makes every call of a plan with a client that has been generated into a folder. */
async function makeCalls(generator: ClientGenerator, folder: string, plan: Plan): Promise<Call[]> {
  const recorder = await recordAnswers(plan.url);
  try {
    const input = JSON.stringify({ ...plan, url: recorder.url });
    const env = (await generator.env?.()) ?? {};
    const { stdout } = await run(await generator.program(folder), { cwd: folder, env, input });
    const outcomes = stdout.trim().split('\n');
    return outcomes.map((line, index) => {
      const isAnswered = matches(plan.calls[index]?.template ?? '', recorder.answers[0]?.path ?? '');
      return { ...(JSON.parse(line) as Outcome), answer: isAnswered ? recorder.answers.shift() : undefined };
    });
  } finally {
    await recorder.close();
  }
}

describe('openapi.yaml', function () {
  this.timeout(300_000);

  it('is valid for openapi-spec-validator', async function () {
    skipWithout(this, python);
    const command = ['python3', '-m', 'openapi_spec_validator', 'openapi.yaml'] as const;
    const { stdout } = await run(command, { cwd: root, env: await pythonPackages() });
    expect(stdout).to.equal('openapi.yaml: OK\n');
  });
});

const generators = [
  ...[heyApiClient, typescriptFetchClient, orvalClient, kubbClient],
  ...[pythonClient, urllib3Client, goClient, goOpenapiGeneratorClient, javaClient, rustClient],
];

for (const generator of generators) {
  describe(`a client by ${generator.name}`, function () {
    this.timeout(300_000);
    let live: LiveGateway;
    let folder: string;
    let printed: string;
    let made: readonly Call[] = [];

    before(async function () {
      for (const runtime of generator.runtimes) skipWithout(this, runtime);
      live = await startForClients();
      folder = await mkdtemp(join(tmpdir(), 'generated-client-'));
      const plan = { url: live.url, key: live.key, calls: await planCalls(live) };
      printed = await generator.generate(folder, plan);
      made = await makeCalls(generator, folder, plan);
    });
    after(async () => {
      await live?.close();
      if (folder) await rm(folder, { recursive: true, force: true });
    });

    it('is generated without a warning', () => {
      expect(printed).to.not.match(/warn|error/i);
    });

    it('runs the program in docs/clients.md', async () => {
      const env = { ...(await generator.env?.()), GATEWAY_URL: live.url, GATEWAY_API_KEY: live.key };
      const failed = (await live.call('GET', '/v1/deliveries?state=failed&limit=10')).body.data as { id: string }[];
      const { stdout } = await run(await generator.example(folder), { cwd: folder, env });
      expect(failed).to.not.have.length(0);
      for (const { id } of failed) expect(stdout).to.include(id);
    });

    it('reads a type of event that the operator has added wherever one is answered', () => {
      for (const operationId of readsEventType) {
        const answered = made.filter((call) => call.operationId === operationId);
        const ofCustomType = answered.filter(({ answer }) => JSON.stringify(answer?.body).includes(`"${customType}"`));
        expect(ofCustomType, operationId).to.not.have.length(0);
        for (const { parsed } of ofCustomType) expect(JSON.stringify(parsed)).to.include(`"${customType}"`);
      }
    });

    for (const { operation } of operations) {
      it(`calls ${operation.operationId}, and reads every field of the answer`, () => {
        const calls = made.filter(({ operationId }) => operationId === operation.operationId);
        expect(calls).to.not.have.length(0);
        for (const { error, answer, parsed } of calls) {
          expect(error, error).to.equal(undefined);
          expect(answer?.status, JSON.stringify(answer)).to.be.within(200, 299);
          if (answer?.body) expect([...new Set(fieldsOf(parsed))]).to.have.members([...new Set(fieldsOf(answer.body))]);
        }
      });
    }
  });
}
