import { expect } from 'chai';
import request from 'supertest';
import { type Listening, listen } from '../../support/listen.ts';
import { loadSpec, type Spec, type SpecOperation } from '../../support/openapi.ts';
import { createFakeEdge, echo, type FakeOperation, fakeOperations, goodKey } from '../fake-edge.ts';

const headers = { authorization: `Bearer ${goodKey}`, 'content-type': 'application/json' };

/** openapi.yaml with some operations described in another way. */
function specWith(changes: Record<string, Partial<SpecOperation>>): Spec {
  const spec = loadSpec();
  for (const item of Object.values(spec.paths)) {
    for (const operation of Object.values(item)) {
      if ('operationId' in operation) Object.assign(operation, changes[operation.operationId]);
    }
  }
  Object.assign(spec.components.parameters ?? {}, {
    Count: { name: 'count', in: 'query', schema: { type: 'integer', maximum: 3 } },
    Mode: { name: 'X-Mode', in: 'header', required: true, schema: { type: 'string', enum: ['slow', 'fast'] } },
  });
  return spec;
}

describe('an operation that openapi.yaml describes', () => {
  let server: Listening;
  const reply: FakeOperation = { handle: async (call) => ({ status: 200, body: echo(call) }) };
  const upload: FakeOperation = {
    async relay({ body, rawBody }, res) {
      res.end(`${typeof body} ${rawBody}`);
    },
  };

  before(async () => {
    const ref = (name: string) => ({ $ref: `#/components/parameters/${name}` });
    const choice = { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] };
    const edge = await createFakeEdge({
      spec: specWith({
        listWebhooks: { parameters: [ref('Count'), ref('Mode')] },
        createImage: {
          requestBody: {
            required: true,
            content: {
              'application/json': { schema: { type: 'object', required: ['prompt'] } },
              'multipart/form-data': { schema: { type: 'object', required: ['image'] } },
            },
          },
        },
        createWebhook: {
          requestBody: {
            required: false,
            content: { 'application/json': { schema: { type: 'object', properties: { to: choice } } } },
          },
        },
      }),
      operations: fakeOperations({ createWebhook: reply, createImage: upload }),
    });
    server = await listen((req, res) => edge(req, res, () => res.end()));
  });
  after(() => server.close());

  it('checks its shared query and header parameters', async () => {
    const list = (query: string, mode?: string) => {
      const call = request(server.url).get(`/v1/webhooks${query}`).set(headers);
      return mode === undefined ? call : call.set('x-mode', mode);
    };
    expect((await list('?count=3', 'slow')).body.query).to.deep.equal({ count: 3 });
    expect((await list('?count=4', 'slow')).body.error).to.include({
      param: 'count',
      code: 'invalid_value',
      message: 'count: must be a whole number, 3 or less',
    });
    expect((await list('')).body.error).to.include({ param: 'x-mode', code: 'missing_required_parameter' });
    expect((await list('', 'idle')).body.error).to.include({ param: 'x-mode', code: 'invalid_value' });
  });

  it('refuses 1e400, which no number can hold, in a relayed body too', async () => {
    const { body, status } = await request(server.url)
      .post('/v1/chat/completions')
      .set(headers)
      .send('{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":1e400}');
    expect(status).to.equal(400);
    expect(body.error).to.include({ code: 'invalid_type', param: 'max_tokens' });
  });

  it('accepts an upload if it is described, checks it against its schema, and passes it on unchanged', async () => {
    const form = (name: string) => `--x\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n1\r\n--x--\r\n`;
    const send = (body: string) =>
      request(server.url)
        .post('/v1/images/generations')
        .set({ ...headers, 'content-type': 'multipart/form-data; boundary=x' })
        .send(body);
    expect((await send(form('image'))).text).to.equal(`undefined ${form('image')}`);
    expect((await send(form('n'))).body.error).to.include({ code: 'missing_required_parameter', param: 'image' });
  });

  it('accepts a request without a body when the body is optional', async () => {
    const { status, body } = await request(server.url)
      .post('/v1/webhooks')
      .set({ authorization: headers.authorization });
    expect([status, body.raw]).to.deep.equal([200, '']);
  });

  it('names every alternative when none of them fits', async () => {
    const { body } = await request(server.url)
      .post('/v1/webhooks')
      .set(headers)
      .send({ to: [1] });
    expect(body.error).to.include({ param: 'to', code: 'invalid_value', message: 'to: must be a string or an array' });
  });
});

describe('a value that may have several types', () => {
  let server: Listening;
  before(async () => {
    const edge = await createFakeEdge();
    server = await listen((req, res) => edge(req, res, () => res.end()));
  });
  after(() => server.close());

  const user = (content: unknown) => ({ model: 'm', messages: [{ role: 'user', content }] });
  const chat = (field: object) => ({ ...user('Hi'), ...field });
  const refused: [path: string, body: object, code: string, param: string, wanted: string][] = [
    ['chat/completions', user(5), 'invalid_type', 'messages[0].content', 'a string or an array or null'],
    ['chat/completions', user(['Hi']), 'invalid_type', 'messages[0].content[0]', 'an object'],
    [
      'chat/completions',
      user([{ type: 5 }]),
      'invalid_type',
      'messages[0].content[0].type',
      'a string of 1 or more characters',
    ],
    [
      'chat/completions',
      user([{ type: '' }]),
      'invalid_value',
      'messages[0].content[0].type',
      'a string of 1 or more characters',
    ],
    ['chat/completions', chat({ stop: 5 }), 'invalid_type', 'stop', 'a string or an array or null'],
    ['chat/completions', chat({ stop: ['a', 5] }), 'invalid_type', 'stop[1]', 'a string'],
    ['chat/completions', chat({ tool_choice: [] }), 'invalid_type', 'tool_choice', 'a string or an object or null'],
    ['chat/completions', chat({ stream_options: 'all' }), 'invalid_type', 'stream_options', 'an object or null'],
    [
      'chat/completions',
      chat({ stream_options: { include_usage: 1 } }),
      'invalid_type',
      'stream_options.include_usage',
      'true or false or null',
    ],
    ['completions', { model: 'm', prompt: 5 }, 'invalid_type', 'prompt', 'a string or an array'],
    [
      'completions',
      { model: 'm', prompt: [{}] },
      'invalid_type',
      'prompt[0]',
      'a string or a whole number or an array',
    ],
    ['embeddings', { model: 'm', input: [] }, 'invalid_value', 'input', 'a string or an array of 1 or more items'],
    ['embeddings', { model: 'm', input: [['a']] }, 'invalid_type', 'input[0][0]', 'a whole number'],
  ];
  for (const [path, body, code, param, wanted] of refused) {
    it(`is refused with the path and the type that is wrong: ${JSON.stringify(body)}`, async () => {
      const answer = await request(server.url).post(`/v1/${path}`).set(headers).send(body);
      expect(answer.status).to.equal(400);
      expect(answer.body.error).to.include({ code, param, message: `${param}: must be ${wanted}` });
    });
  }

  const taken: [path: string, body: object][] = [
    ['chat/completions', user(null)],
    ['chat/completions', user([])],
    ['chat/completions', chat({ stop: null, tool_choice: {}, stream_options: null })],
    ['chat/completions', chat({ stop: [], tool_choice: 'auto', stream_options: { include_usage: null } })],
    ['completions', { model: 'm', prompt: ['a', 1, [2]] }],
    ['embeddings', { model: 'm', input: ['a', 1, [2]] }],
  ];
  for (const [path, body] of taken) {
    it(`is accepted: ${JSON.stringify(body)}`, async () => {
      const { status } = await request(server.url).post(`/v1/${path}`).set(headers).send(body);
      expect(status).to.equal(200);
    });
  }
});

describe('an id', () => {
  it('in a form that no id has is left to the operation to answer', async () => {
    const edge = await createFakeEdge();
    const server = await listen((req, res) => edge(req, res, () => res.end()));
    const paths = ['webhooks/nobody', 'deliveries/nobody', 'webhooks?after=nobody', 'deliveries?webhook_id=nobody'];
    for (const path of paths) {
      const { status } = await request(server.url).get(`/v1/${path}`).set(headers);
      expect(status, path).to.equal(200);
    }
    await server.close();
  });
});

describe('a relayed call', () => {
  it('may have any query, which is neither checked nor changed', async () => {
    const edge = await createFakeEdge();
    const server = await listen((req, res) => edge(req, res, () => res.end()));
    const { status, body } = await request(server.url).get('/v1/models?limit=x&a[b]=1&__proto__[c]=&d=').set(headers);
    expect(status).to.equal(200);
    expect(body.query).to.deep.equal(JSON.parse('{"limit":"x","a[b]":"1","__proto__[c]":"","d":""}'));
    await server.close();
  });
});
