import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import {
  idParameter,
  kinds,
  listedKinds,
  madeBy,
  type StoredCall,
  type StoredOperation,
  storedCalls,
  storedId,
  upstreamPath,
} from '../../src/stored/kinds.ts';
import { spec } from '../support/openapi.ts';
import { operations, resolved } from '../support/spec.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: { readonly pattern?: string };
}

const described = operations
  .filter(({ operation }) => operation.operationId in storedCalls)
  .flatMap(({ path, operation }) =>
    [...(spec.paths[path]?.parameters ?? []), ...(operation.parameters ?? [])].map((parameter) => ({
      operationId: operation.operationId,
      ...(resolved(parameter) as unknown as Parameter),
    })),
  )
  // the name of a model is no id
  .filter(
    ({ name, in: location }) => (location === 'path' && name !== 'model') || name === 'after' || name === 'after_id',
  );

describe('the ids of what upstreams keep', () => {
  for (const { operationId, name, schema } of described) {
    it(`are in openapi.yaml as the gateway takes them: ${name} of ${operationId}`, () => {
      expect(schema.pattern).to.equal(storedId.source);
    });
  }

  it('are described for every path that has one', () => {
    const withId = Object.entries(storedCalls).filter(([, call]) => idParameter(call) && call.kind !== 'model');
    expect(described.map(({ operationId }) => operationId)).to.include.members(withId.map(([id]) => id));
  });

  it('are those of any provider, and lead nowhere else in a path', () => {
    const path = '/responses/{response_id}';
    for (const id of ['resp_9f2c', 'chatcmpl-9f2c', 'a:b', 'A.b..c', '-', 'x'.repeat(256)]) {
      expect(upstreamPath({ path }, { response_id: id })).to.equal(`/responses/${encodeURIComponent(id)}`);
    }
    for (const id of ['', '.', '..', '../models', 'a/b', 'a%2fb', 'a b', 'é', 'a\n', 'x'.repeat(257)]) {
      expect(() => upstreamPath({ path }, { response_id: id }), id).to.throw('response_id: must be an id');
    }
  });

  it('of models are their names, which lead nowhere else in a path', () => {
    const path = '/models/{model}';
    for (const model of ['ft:m:acme::1', 'acme/m', '../files', 'a.b', 'a b', 'é', 'x'.repeat(256)]) {
      expect(upstreamPath({ path }, { model })).to.equal(`/models/${encodeURIComponent(model)}`);
    }
    for (const model of ['', '.', '..', '...', 'a\n', 'a\0', '\ud800', 'x'.repeat(257)]) {
      expect(() => upstreamPath({ path }, { model }), model).to.throw('model: must be an id');
    }
  });
});

const resources = join(dirname(fileURLToPath(import.meta.resolve('openai'))), 'resources');

/** APIs that the gateway does not serve: nothing of them is in a request that it relays. */
const notServed = /[/\\](?:admin|beta|chatkit|evals|graders|videos|webhooks|live)[/\\.]/;

/** Fields that name something which upstreams keep, and are told by something else than their key. */
const continued = ['previous_response_id', 'conversation_id', 'response_id', 'item_id', 'upload_id'];

/** Fields that name nothing which upstreams keep for an account, and why. */
const harmless: Readonly<Record<string, string>> = {
  approval_request_id: 'an item of the same response',
  call_id: 'a call of a tool in the same conversation, or of a path',
  caller_id: 'a call of a tool in the same conversation',
  tool_call_id: 'a call of a tool in the same conversation, or of a path',
  connector_id: 'a service of the provider',
  error_file_id: 'of an answer',
  event_id: 'an event of the same socket',
  fine_tuning_job_id: 'of a path',
  first_id: 'of an answer',
  last_id: 'of an answer',
  organization_id: 'of an answer',
  output_file_id: 'of an answer',
  group_id: 'a label of the client in traces of the provider',
  project_id: "of the provider's organization",
  project_ids: "of the provider's organization",
  result_files: 'of an answer',
  image_file: 'the name of a purpose',
  previous_item_id: 'an item of the same realtime session',
  segment_id: 'of an answer',
  stream_id: 'of a stream between client and provider',
  tunnel_id: 'of the operator, who sets tunnels up at the provider',
  user_id: 'of an answer',
  vector_store_id: 'of a path',
};

async function typesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  const files = entries
    .filter(({ name }) => name.endsWith('.d.ts'))
    .map(({ parentPath, name }) => join(parentPath, name));
  return Promise.all(files.filter((file) => !notServed.test(file)).map((file) => readFile(file, 'utf8')));
}

describe('the keys under which a request names what upstreams keep', () => {
  const known = Object.values(kinds).flatMap(({ namedBy = [] }) => namedBy);
  /** Those that one operation alone has. */
  const ofCalls = Object.values(storedCalls).flatMap(({ namesFiles = [] }) => namesFiles);

  it("are all keys of OpenAI's client that end like one", async () => {
    const types = (await typesIn(resources)).join('\n');
    const keys = new Set(
      [...types.matchAll(/^\s+['"]?(\w*(?:_ids?|_files?))['"]?\??:/gm)].map(([, key]) => key as string),
    );
    expect(keys.size).to.be.above(15);
    const all = [...known, ...ofCalls, ...continued];
    const unknown = [...keys].filter((key) => !(all.includes(key) || key in harmless));
    expect(unknown).to.deep.equal([]);
  });

  it('are such that a body is searched for them', () => {
    for (const key of known) expect(key).to.match(/e_id|r_id|t_id|ill_id|^container$/);
  });
});

describe('the kinds of what upstreams keep', () => {
  it('are in the list of an account as openapi.yaml names them', () => {
    const { enum: named } = spec.components.schemas.StoredObjectKind as { enum: string[] };
    expect([...listedKinds.keys()]).to.have.members(named);
  });

  it('that can have a price are described as refused with 402 by each operation that makes one', () => {
    const priced = operations.filter(({ operation: { operationId, requestBody } }) => {
      const call: StoredCall | undefined = storedCalls[operationId as StoredOperation];
      const kind = call?.isCounted && kinds[call.kind].pricedAs;
      return kind && (madeBy(call) === kind || requestBody?.content['multipart/form-data']);
    });
    const ids = priced.map(({ operation }) => operation.operationId);
    expect(ids).to.include.members(['createFile', 'createContainerFile']);
    for (const { operation } of priced) expect(operation.responses, operation.operationId).to.have.property('402');
  });
});
