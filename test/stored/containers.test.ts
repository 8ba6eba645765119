import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { FileProvider } from './file-provider.ts';
import { failure } from './support.ts';

describe('containers and skills', () => {
  let provider: FileProvider;
  let gateway: LiveGateway;
  let client: OpenAI;
  let stranger: OpenAI;

  before(async () => {
    provider = await FileProvider.start();
    gateway = await startGateway({ upstreams: [{ name: 'one', baseUrl: provider.baseUrl, apiKey: 'sk-up' }] });
    const { key } = await gateway.gateway.keys.create({ userId: 'usr_2' });
    const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    client = clientOf(gateway.key);
    stranger = clientOf(key);
  });
  afterEach(() => {
    provider.output = [];
  });
  after(async () => {
    await gateway.close();
    await provider.close();
  });

  const newFile = async (by = client) =>
    (await by.files.create({ file: await toFile(Buffer.from('Douro'), 'a.txt'), purpose: 'user_data' })).id;
  const newContainer = async (by = client) => (await by.containers.create({ name: 'Rivers' })).id;

  it('are served with all their calls', async () => {
    const file_id = await newFile();
    const id = await newContainer();
    expect((await client.containers.retrieve(id)).id).to.equal(id);
    expect((await client.containers.list()).data.map((container) => container.id)).to.include(id);
    const { files } = client.containers;
    const named = await files.create(id, { file_id });
    const sent = await files.create(id, { file: await toFile(Buffer.from('Tagus'), 'b.txt') });
    expect((await files.list(id)).data.map((file) => file.id)).to.deep.equal([named.id, sent.id]);
    const inIt = { container_id: id };
    expect((await files.retrieve(sent.id, inIt)).id).to.equal(sent.id);
    expect(await (await files.content.retrieve(named.id, inIt)).text()).to.equal('Douro');
    expect(await (await files.content.retrieve(sent.id, inIt)).text()).to.equal('Tagus');
    await files.delete(sent.id, inIt);
    expect((await files.list(id)).data).to.have.length(1);
    await client.containers.delete(id);
    expect((await failure(client.containers.retrieve(id))).code).to.equal('container_not_found');
  });

  it('of another account are not found, as if there were none, and no upstream is asked', async () => {
    const container_id = await newContainer();
    const before = provider.seen.length;
    const { containers } = stranger;
    const code = { type: 'code_interpreter' as const, container: container_id };
    const environment = { type: 'container_reference', container_id };
    const call = {
      type: 'code_interpreter_call',
      id: 'ci_new',
      code: '1',
      container_id,
      outputs: [],
      status: 'completed',
    };
    const ask = (body: object) => stranger.responses.create({ model: 'm', input: 'Hi', ...body } as never);
    for (const refused of [
      containers.retrieve(container_id),
      containers.delete(container_id),
      containers.files.list(container_id),
      containers.files.create(container_id, { file: await toFile(Buffer.from('x'), 'a') }),
      containers.files.retrieve('cfile_1', { container_id }),
      containers.files.delete('cfile_1', { container_id }),
      containers.files.content.retrieve('cfile_1', { container_id }),
      ask({ tools: [code] }),
      ask({ tools: [{ ...code, Container: container_id, container: undefined }] }),
      ask({ tools: [{ type: 'shell', environment }] }),
      ask({ input: [call] }),
    ]) {
      const error = await failure(refused);
      expect([error.status, error.code]).to.deep.equal([404, 'container_not_found']);
    }
    expect(provider.seen).to.have.length(before);
    expect((await stranger.containers.list()).data).to.deep.equal([]);
    const unknown = await failure(
      client.responses.create({ model: 'm', input: 'Hi', tools: [{ ...code, container: 'cntr_no' }] }),
    );
    expect([unknown.code, unknown.param]).to.deep.equal(['container_not_found', 'tools[0].container']);
    expect((await client.responses.create({ model: 'm', input: 'Hi', tools: [code] })).id).to.match(/^resp_/);
  });

  it('get no file of another account, by JSON or by a form', async () => {
    const file_id = await newFile();
    const id = await newContainer(stranger);
    expect((await failure(stranger.containers.files.create(id, { file_id }))).code).to.equal('file_not_found');
    for (const name of ['file_id', 'FILE_ID', 'file_ids[]', 'source[file_id]']) {
      const body = new FormData();
      body.append('file', new Blob(['x']), 'a');
      body.append(name, file_id);
      const headers = { authorization: `Bearer ${stranger.apiKey}` };
      const answer = await fetch(`${gateway.url}/v1/containers/${id}/files`, { method: 'POST', headers, body });
      const { error } = (await answer.json()) as { error: { code: string; param: string } };
      expect([answer.status, error.code, error.param]).to.deep.equal([404, 'file_not_found', name]);
    }
  });

  it('get a file of the account by a form that has its id alone, as older clients send it', async () => {
    const file_id = await newFile();
    const id = await newContainer();
    const body = new FormData();
    body.append('file_id', file_id);
    const headers = { authorization: `Bearer ${client.apiKey}` };
    const answer = await fetch(`${gateway.url}/v1/containers/${id}/files`, { method: 'POST', headers, body });
    expect(answer.status).to.equal(200);
    const [made] = (await client.containers.files.list(id)).data;
    const content = await client.containers.files.content.retrieve(String(made?.id), { container_id: id });
    expect(await content.text()).to.equal('Douro');
  });

  it('that a response has made belong to its account, before it gets their ids', async () => {
    provider.output = [{ type: 'code_interpreter_call', id: 'ci_1', container_id: 'cntr_auto' }];
    const tools = [{ type: 'code_interpreter' as const, container: { type: 'auto' as const } }];
    await client.responses.create({ model: 'm', input: 'Hi', tools });
    provider.output = [];
    const again = [{ type: 'code_interpreter' as const, container: 'cntr_auto' }];
    expect((await client.responses.create({ model: 'm', input: 'Hi', tools: again })).id).to.match(/^resp_/);
    const refused = await failure(stranger.responses.create({ model: 'm', input: 'Hi', tools: again }));
    expect(refused.code).to.equal('container_not_found');
  });

  it('are served with all their calls, as to skills', async () => {
    const { skills } = client;
    const files = [await toFile(Buffer.from('# Rivers'), 'SKILL.md')];
    const { id: skill_id } = await skills.create({ files });
    expect((await skills.retrieve(skill_id)).name).to.equal('rivers');
    expect((await skills.list()).data.map(({ id }) => id)).to.deep.equal([skill_id]);
    expect((await skills.update(skill_id, { default_version: '1' })).id).to.equal(skill_id);
    expect(await (await skills.content.retrieve(skill_id)).text()).to.equal('PK');
    const { versions } = skills;
    expect((await versions.create(skill_id, { files })).version).to.equal('1');
    expect((await versions.list(skill_id)).data).to.have.length(1);
    expect((await versions.retrieve('1', { skill_id })).version).to.equal('1');
    expect(await (await versions.content.retrieve('1', { skill_id })).text()).to.equal('PK');
    expect((await versions.delete('1', { skill_id })).deleted).to.equal(true);

    const used = (by: OpenAI) => {
      const environment = { type: 'container_auto', skills: [{ type: 'skill_reference', skill_id }] };
      return by.responses.create({ model: 'm', input: 'Hi', tools: [{ type: 'shell', environment }] } as never);
    };
    const inContainer = { name: 'a', skills: [{ type: 'skill_reference' as const, skill_id }] };
    expect((await used(client)).id).to.match(/^resp_/);
    expect((await client.containers.create(inContainer)).id).to.match(/^cntr_/);
    const before = provider.seen.length;
    for (const refused of [
      used(stranger),
      stranger.containers.create(inContainer),
      stranger.skills.retrieve(skill_id),
      stranger.skills.update(skill_id, { default_version: '1' }),
      stranger.skills.delete(skill_id),
      stranger.skills.content.retrieve(skill_id),
      stranger.skills.versions.create(skill_id, { files }),
      stranger.skills.versions.list(skill_id),
      stranger.skills.versions.retrieve('1', { skill_id }),
      stranger.skills.versions.delete('1', { skill_id }),
    ]) {
      const error = await failure(refused);
      expect([error.status, error.code]).to.deep.equal([404, 'skill_not_found']);
    }
    expect(provider.seen).to.have.length(before);
    expect((await stranger.skills.list()).data).to.deep.equal([]);
    expect((await skills.delete(skill_id)).deleted).to.equal(true);
    expect((await failure(skills.retrieve(skill_id))).code).to.equal('skill_not_found');
  });

  it('are made of a body in JSON too, as to skills, which goes up as it came', async () => {
    const body = { files: ['# Rivers'], exact: 1.5 };
    const { id } = await client.skills.create(body as never);
    expect(provider.bodies.at(-1)).to.equal(JSON.stringify(body));
    expect((await client.skills.retrieve(id)).id).to.equal(id);
    expect((await client.skills.versions.create(id, { default: true })).version).to.equal('1');
    expect(provider.bodies.at(-1)).to.equal('{"default":true}');
    const file_id = await newFile(stranger);
    for (const named of [
      client.skills.create({ file_id } as never),
      client.skills.versions.create(id, { file_id } as never),
    ]) {
      expect((await failure(named)).code).to.equal('file_not_found');
    }
    await client.skills.delete(id);
  });

  it('are listed with a limit of 0, as to skills, which says whether there are any', async () => {
    const none = await stranger.skills.list({ limit: 0 });
    expect([none.data, none.has_more]).to.deep.equal([[], false]);
    const { id } = await client.skills.create({});
    const some = await client.skills.list({ limit: 0 });
    expect([some.data, some.has_more]).to.deep.equal([[], true]);
    const refused = await failure(client.skills.list({ limit: 101 }));
    expect([refused.status, refused.param]).to.deep.equal([400, 'limit']);
    expect(refused.message).to.contain('from 0 to 100');
    await client.skills.delete(id);
  });

  it('belong to nobody by what a client sends back, and are unknown in a tool after it', async () => {
    const call = { type: 'code_interpreter_call', id: 'ci_x', code: '1', container_id: 'cntr_x', outputs: [] };
    const { id } = await client.conversations.create({ items: [call] } as never);
    provider.output = [];
    provider.items = [call];
    await client.conversations.items.list(id);
    await client.conversations.items.create(id, { items: [call] } as never);
    provider.items = [];
    expect((await failure(client.containers.retrieve('cntr_x'))).code).to.equal('container_not_found');
    const environment = { type: 'container_reference', container_id: 'cntr_x' };
    const asked = client.responses.create({
      model: 'm',
      input: [call],
      tools: [{ type: 'shell', environment }],
    } as never);
    const error = await failure(asked);
    expect([error.code, error.param]).to.deep.equal(['container_not_found', 'tools[0].environment.container_id']);
  });

  it('of containers that nobody is known to have may stand in what is sent back', async () => {
    const call = {
      type: 'code_interpreter_call',
      id: 'ci_old',
      code: '1',
      container_id: 'cntr_old',
      outputs: [],
      status: 'completed',
    };
    const { id } = await client.responses.create({ model: 'm', input: [call] } as never);
    expect(id).to.match(/^resp_/);
  });
});
