import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { scopes } from '../../src/index.ts';
import { run } from '../clients/generated-client.ts';
import { startForClients } from '../clients/live.ts';
import { python, skipWithout } from '../documentation/runtimes.ts';
import type { LiveGateway } from '../support/gateway.ts';
import { loadSpec, type Spec, type SpecSchema } from '../support/openapi.ts';
import { installedPackages } from '../support/processes/python.ts';

const here = fileURLToPath(new URL('schemathesis/', import.meta.url));

/**
 * The document with what its text says of every JSON body and no schema does, because client generators would make each field nullable:
 * null in an optional field is as if the field were absent.
 */
function withAbsentNulls(spec: Spec): Spec {
  const document = structuredClone(spec) as Spec & { components: { schemas: Record<string, SpecSchema> } };
  const { schemas } = document.components;

  /** The same schema for bodies. References lead to copies, so that answers are held to the schemas as they are. */
  function forBodies(schema: SpecSchema): SpecSchema {
    const name = typeof schema.$ref === 'string' ? schema.$ref.split('/').at(-1) : undefined;
    if (name !== undefined) {
      const copy = `${name}InBodies`;
      const original = schemas[name] as SpecSchema;
      if (!(copy in schemas)) {
        schemas[copy] = {};
        schemas[copy] = forBodies(original);
      }
      return { ...schema, $ref: `#/components/schemas/${copy}` };
    }
    const {
      properties,
      items,
      required = [],
    } = schema as {
      properties?: Record<string, SpecSchema>;
      items?: SpecSchema;
      required?: string[];
    };
    const field = ([key, value]: [string, SpecSchema]) => {
      const inBodies = forBodies(value);
      return [key, required.includes(key) ? inBodies : { anyOf: [inBodies, { type: 'null' }] }];
    };
    const alternatives = ['oneOf', 'anyOf', 'allOf'].flatMap((kind) =>
      Array.isArray(schema[kind]) ? [[kind, (schema[kind] as SpecSchema[]).map(forBodies)]] : [],
    );
    return {
      ...schema,
      ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(field)) }),
      ...(items && { items: forBodies(items) }),
      ...Object.fromEntries(alternatives),
    } as SpecSchema;
  }

  for (const path of Object.values(document.paths ?? {})) {
    for (const operation of Object.values(
      path as Record<string, { requestBody?: { content?: Record<string, { schema?: SpecSchema }> } }>,
    )) {
      const json = operation.requestBody?.content?.['application/json'];
      if (json?.schema) json.schema = forBodies(json.schema);
    }
  }
  return document;
}

describe('a gateway that Schemathesis calls', function () {
  this.timeout(600_000);
  let live: LiveGateway;
  let folder: string;
  before(async () => {
    live = await startForClients();
    folder = await mkdtemp(join(tmpdir(), 'schemathesis-'));
  });
  after(async () => {
    await live?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('accepts what openapi.yaml allows, refuses what it does not, and answers as it says', async function () {
    skipWithout(this, python);
    const { key } = await live.gateway.keys.create({ userId: 'usr_schemathesis', scopes });
    const env = { ...(await installedPackages(`${here}requirements.txt`)), GATEWAY_API_KEY: key };
    const config = ['--config-file', join(here, 'schemathesis.toml')];
    const document = join(folder, 'openapi.json');
    await writeFile(document, JSON.stringify(withAbsentNulls(loadSpec())));
    const program = ['python3', '-m', 'schemathesis.cli', ...config, 'run', document] as const;
    await run([...program, '--url', live.url], { cwd: folder, env });
    // otherwise each call has been refused alike
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'm', input: 'Hi' });
    const { status } = await fetch(`${live.url}/v1/embeddings`, { method: 'POST', headers, body });
    expect(status).to.equal(200);
  });
});
