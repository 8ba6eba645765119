import { expect } from 'chai';
import { scopes } from '../../../src/index.ts';
import { alternativesOf } from '../../../src/openapi/schemas.ts';
import { type Listening, listen } from '../../support/listen.ts';
import { type SpecSchema, spec, specMethods } from '../../support/openapi.ts';
import { createFakeEdge, serveSchema } from '../fake-edge.ts';

/** An operation that takes JSON, with a good body and the fields that it may have. */
interface Taking {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly good: Readonly<Record<string, unknown>>;
  readonly required: readonly string[];
  readonly optional: readonly string[];
  /** Those to which null means something. */
  readonly nullable: readonly string[];
}

interface Form {
  readonly properties?: Readonly<Record<string, SpecSchema>>;
  readonly required?: readonly string[];
}

function takesNull(schema: SpecSchema): boolean {
  const types = alternativesOf(spec, schema).flatMap(({ type, oneOf }) => (oneOf ? [] : [type ?? 'null'].flat()));
  return types.includes('null');
}

const operations = Object.entries(spec.paths).flatMap(([path, item]): Taking[] =>
  specMethods.flatMap((method): Taking[] => {
    const operation = item[method];
    const { schema, examples = {} } = operation?.requestBody?.content['application/json'] ?? {};
    const good = Object.values(examples)[0]?.value as Taking['good'] | undefined;
    if (!operation || !schema || !good) return [];
    // of several forms that a body may have, the first is that of the example
    const [form, ...others] = alternativesOf(spec, schema).filter((each) => each.properties) as unknown as Form[];
    const { properties = {}, required: ofForm = [] } = form ?? {};
    const required = ofForm.filter((name) => others.every((other) => other.required?.includes(name)));
    const optional = Object.keys(properties).filter((name) => !ofForm.includes(name));
    const nullable = Object.keys(properties).filter((name) => takesNull(properties[name] as SpecSchema));
    return [{ name: operation.operationId, method, path, good, required, optional, nullable }];
  }),
);

describe('null in a body', () => {
  let server: Listening;

  before(async () => {
    const edge = await createFakeEdge({ authenticate: () => ({ userId: 'usr_1', scopes }) });
    server = await listen((req, res) => edge(req, res));
  });
  after(() => server.close());

  async function send({ method, path }: Pick<Taking, 'method' | 'path'>, body: object) {
    const url = server.url + path.replace(/\{\w+\}/g, 'wh_1');
    const text = JSON.stringify(body);
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' };
    const response = await fetch(url, { method: method.toUpperCase(), headers, body: text });
    const answer = (await response.json()) as { body?: object; raw?: string; error?: { code: string; param: string } };
    return { status: response.status, ...answer, isRaw: answer.raw === Buffer.from(text).toString('base64') };
  }

  for (const operation of operations) {
    const { name, good, required, optional, nullable } = operation;
    it(`is as if an optional field of ${name} were absent`, async () => {
      // of a relayed body only described fields are read
      const { body: plain } = await send(operation, good);
      const absent = optional.filter((field) => !Object.hasOwn(good, field));
      const nulls = Object.fromEntries(absent.map((field) => [field, null]));
      const { status, body, isRaw } = await send(operation, { ...good, ...nulls });
      const kept = Object.fromEntries(absent.filter((field) => nullable.includes(field)).map((field) => [field, null]));
      expect({ status, body }).to.deep.equal({ status: 200, body: { ...plain, ...kept } });
      expect(isRaw).to.equal(true);
    });

    it(`is refused in a required field of ${name}`, async () => {
      for (const field of required.filter((each) => !nullable.includes(each))) {
        const { status, error } = await send(operation, { ...good, [field]: null });
        expect([status, error?.param], field).to.deep.equal([400, field]);
      }
    });
  }

  it('is as if a field of an object in a list were absent', async () => {
    const budgets = { method: 'put', path: '/v1/users/{user_id}/budgets' };
    const { status, body } = await send(budgets, { budgets: [{ period: 'day', tokens: 5, credits: null }] });
    expect({ status, body }).to.deep.equal({ status: 200, body: { budgets: [{ period: 'day', tokens: 5 }] } });
    const part = { type: 'image_url', text: null, image_url: { url: 'https://images.example.com/1' } };
    const messages = [{ role: 'user', content: [part] }];
    expect(await send({ method: 'post', path: '/v1/chat/completions' }, { model: 'm', messages })).to.include({
      status: 200,
      isRaw: true,
    });
  });

  it('is as if a field were absent at every depth of a schema that has itself in it', async () => {
    const node = { $ref: '#/components/schemas/Node' };
    const schema = {
      type: 'object',
      properties: { next: node, all: { type: 'array', items: node }, note: { type: 'string' } },
    };
    const { send, close } = await serveSchema(node, { Node: schema });
    const given = { next: { next: { note: null }, all: [{ note: null, own: null }] }, note: 'a' };
    const { status, body } = await send(JSON.stringify(given));
    await close();
    expect({ status, body }).to.deep.equal({
      status: 200,
      body: { next: { next: {}, all: [{ own: null }] }, note: 'a' },
    });
  });

  it("stays in what is an event's or a caller's own", async () => {
    const data = { type: null, id: null };
    const published = { type: 'credits.low', user_id: 'usr_1', data };
    expect((await send({ method: 'post', path: '/v1/events' }, published)).body).to.deep.equal(published);
    const webhook = { url: 'https://example.com', events: ['credits.low'], metadata: { team: null } };
    const { error } = await send({ method: 'post', path: '/v1/webhooks' }, webhook);
    expect(error).to.include({ code: 'invalid_type', param: 'metadata.team' });
  });
});
