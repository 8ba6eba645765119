import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { expect } from 'chai';
import { loadAll } from 'js-yaml';
import { python, skipWithout } from '../documentation/runtimes.ts';
import { installedPackages } from '../support/processes/python.ts';
import { read } from './files.ts';

/** The oldest Kubernetes that takes every field of the manifests without a feature gate, and the newest that has a schema. */
const kubernetes = ['v1.27.0', 'v1.37.0'];

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}

/** What a schema has against a document, with where. */
const told = (errors: readonly ErrorObject[] | null | undefined) =>
  (errors ?? []).map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`);

describe('The files in deploy/, held against the schemas of their readers', function () {
  this.timeout(120_000);
  /** Two packages that carry these schemas. */
  let packages: string;

  const schema = (...names: string[]) => JSON.parse(readFileSync(path.join(packages, ...names), 'utf8'));

  /** What a version of Kubernetes has against a manifest. */
  function complaints(version: string, manifest: Manifest): string[] {
    const folder = ['kubernetes_validate', 'kubernetes-json-schema', `${version}-local-strict`];
    const [group = '', inGroup] = manifest.apiVersion.split('/');
    const name = [manifest.kind.toLowerCase(), ...(inGroup ? [group.split('.')[0], inGroup] : [group])].join('-');
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema(schema(...folder, '_definitions.json'), '_definitions.json');
    const validate = ajv.compile(schema(...folder, `${name}.json`));
    validate(manifest);
    return told(validate.errors);
  }

  before(async function () {
    this.timeout(300_000);
    skipWithout(this, python);
    const { PYTHONPATH } = await installedPackages(fileURLToPath(new URL('schemas.txt', import.meta.url)));
    packages = PYTHONPATH as string;
  });

  for (const version of kubernetes) {
    it(`are manifests of Kubernetes ${version}, without a field that it does not know`, () => {
      const manifests = ['gateway.yaml', 'migrate.yaml'].flatMap(
        (file) => loadAll(read(`kubernetes/${file}`)) as Manifest[],
      );
      expect(manifests).to.have.length(6);
      for (const manifest of manifests) expect(complaints(version, manifest), manifest.kind).to.deep.equal([]);
      const misspelt = read('kubernetes/migrate.yaml').replace('backoffLimit', 'backOffLimit');
      expect(complaints(version, loadAll(misspelt)[0] as Manifest)).to.have.length(1);
    });
  }

  it('are a file of the Compose specification', () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    const validate = ajv.compile(schema('check_jsonschema', 'builtin_schemas', 'vendor', 'compose-spec.json'));
    validate(loadAll(read('compose.yaml'))[0]);
    expect(told(validate.errors)).to.deep.equal([]);
    validate(loadAll(read('compose.yaml').replace('stop_grace_period', 'stop_grace_time'))[0]);
    expect(told(validate.errors)).not.to.deep.equal([]);
  });
});
