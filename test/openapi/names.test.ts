import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { root } from '../package/tarball.ts';

const run = promisify(execFile);

interface Problem {
  readonly ruleId: string;
  readonly message: string;
}

/** What the lint says of the names in a document with these schemas. */
async function problemsOf(schemas: object): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'lint-names-'));
  try {
    const document = { openapi: '3.1.0', info: { title: 'Names', version: '1' }, paths: {}, components: { schemas } };
    await writeFile(join(folder, 'openapi.json'), JSON.stringify(document));
    const lint = ['lint', join(folder, 'openapi.json'), '--config', '.redocly.yaml', '--format', 'json'];
    const options = { cwd: root };
    const { stdout } = await run(join(root, 'node_modules/.bin/redocly'), lint, options).catch((error) => error);
    const { problems } = JSON.parse(stdout) as { problems: Problem[] };
    return problems.filter(({ ruleId }) => ruleId === 'names/no-collisions').map(({ message }) => message);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe('The lint of openapi.yaml', () => {
  it('refuses names of which generated clients make one and the same', async () => {
    const found = await problemsOf({
      ...{ ApiKey: { type: 'object' }, NewApiKey: { type: 'object' } },
      ...{ Error: { type: 'object' }, ModelError: { type: 'object' } },
      ...{ WebhookList: { type: 'object' }, Webhook_list: { type: 'object' } },
      Delivery: { type: 'object', properties: { user_id: { type: 'string' }, userId: { type: 'string' } } },
      State: { type: 'string', enum: ['failed', 'FAILED', 'in_flight', 'in-flight'] },
    });
    expect(found).to.have.members([
      'NewApiKey is what generators call ApiKey.',
      'ModelError is what generators call Error.',
      'Webhook_list is WebhookList in another case.',
      'userId is user_id in another case.',
      'FAILED is failed in another case.',
      'in-flight is in_flight in another case.',
    ]);
  });

  it('allows names that differ by more', async () => {
    const found = await problemsOf({
      ...{ ApiKey: { type: 'object' }, ApiKeyCreated: { type: 'object' }, NewSession: { type: 'object' } },
      State: { type: 'string', enum: ['failed', 'failing'] },
      Count: { type: 'integer', enum: [1, -1] },
    });
    expect(found).to.deep.equal([]);
  });
});
