import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';
import { failure } from './support.ts';

const messages = [{ role: 'user' as const, content: 'Which river?' }];

describe('the name of a fine-tuned model', () => {
  let provider: FileProvider;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: LiveGateway;
  let client: OpenAI;
  let stranger: OpenAI;
  let ended = 0;

  before(async () => {
    provider = await FileProvider.start();
    // the gateway keeps the list for a while
    provider.models.add('m-small');
    database = await freshDatabase();
    gateway = await startGateway({
      mongo: database.connection,
      upstreams: [
        {
          name: 'one',
          baseUrl: provider.baseUrl,
          models: ['*', 'gpt-named', 'ft:m:acme::shared'],
          aliases: { small: 'm-small' },
        },
      ],
      background: { pollInterval: 20 },
      onUsage: ({ endpoint }) => {
        if (endpoint === '/fine_tuning/jobs') ended += 1;
      },
    });
    const clientOf = (apiKey: string) => new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    client = clientOf(gateway.key);
    stranger = clientOf((await gateway.gateway.keys.create({ userId: 'usr_2' })).key);
  });
  after(async () => {
    await gateway.close();
    await database.drop();
    await provider.close();
  });

  const newFile = async () =>
    (await client.files.create({ file: await toFile(Buffer.from('{}\n'), 'a.jsonl'), purpose: 'fine-tune' })).id;
  /** Has the account's job end with a model of this name. @returns the job's id */
  async function makeModel(name: string, model = 'm'): Promise<string> {
    const { id } = await client.fineTuning.jobs.create({ model, training_file: await newFile() });
    provider.models.add(name);
    const before = ended;
    provider.jobs.set(id, { ...provider.jobs.get(id), status: 'succeeded', fine_tuned_model: name, trained_tokens: 1 });
    await until(() => ended > before);
    return id;
  }
  const call = (by: OpenAI, model: string) => by.chat.completions.create({ model, messages });
  const listed = async (by: OpenAI) => (await by.models.list()).data.map(({ id }) => id);

  it('takes nothing from others that the operator names in models or aliases', async () => {
    for (const name of ['gpt-named', 'ft:m:acme::shared', 'small', 'm-small']) {
      await makeModel(name);
      for (const by of [client, stranger]) {
        expect(await call(by, name)).to.have.property('object', 'chat.completion');
        expect(await by.models.retrieve(name)).to.have.property('id', name);
      }
    }
    for (const by of [client, stranger]) {
      const ids = await listed(by);
      expect(ids.filter((id) => id === 'gpt-named')).to.have.length(1);
      expect(ids.filter((id) => id === 'ft:m:acme::shared')).to.have.length(1);
    }
  });

  it('is not that of the base model, whatever the job says', async () => {
    await makeModel('m-base', 'm-base');
    expect(await call(stranger, 'm-base')).to.have.property('object', 'chat.completion');
  });

  it('is nobody else’s in other case, or with white space around it, which a provider may overlook', async () => {
    await makeModel('ft:m:acme::case');
    await makeModel('acme/tuned');
    const before = provider.bodies.length;
    for (const name of [
      'FT:m:acme::case',
      ' ft:m:acme::case',
      'ft:m:acme::CASE',
      'Acme/Tuned',
      'acme/tuned ',
      '\nacme/tuned',
    ]) {
      expect((await failure(call(stranger, name))).code, name).to.equal('model_not_found');
    }
    expect(provider.bodies).to.have.length(before);
    for (const name of ['ft:m:acme::case', 'acme/tuned']) await call(client, name);
  });

  it('is told apart from that of another account which differs in case alone', async () => {
    await makeModel('acme/Twin');
    const file = await stranger.files.create({
      file: await toFile(Buffer.from('{}\n'), 'a.jsonl'),
      purpose: 'fine-tune',
    });
    const { id } = await stranger.fineTuning.jobs.create({ model: 'm', training_file: file.id });
    const before = ended;
    provider.jobs.set(id, { ...provider.jobs.get(id), status: 'succeeded', fine_tuned_model: 'acme/twin' });
    await until(() => ended > before);
    await call(client, 'acme/Twin');
    await call(stranger, 'acme/twin');
    expect((await failure(call(client, 'acme/twin'))).code).to.equal('model_not_found');
    expect((await failure(call(stranger, 'acme/Twin'))).code).to.equal('model_not_found');
  });

  it('where it begins with ft: and is not served, the error says how it would be', async () => {
    const { message } = await failure(call(stranger, 'ft:m:elsewhere::1'));
    expect(message).to.match(/the models of an upstream name it, or a pattern that begins with ft:/);
  });

  it('is listed with the time at which it was made, also after its job was read again', async () => {
    const before = Math.floor(Date.now() / 1_000);
    const { Date: clock } = globalThis;
    let id = '';
    try {
      // of a process whose clock is an hour ahead of the database's
      globalThis.Date = class extends clock {
        constructor(...given: unknown[]) {
          super(...((given.length > 0 ? given : [globalThis.Date.now()]) as [number]));
        }
        static override now = () => clock.now() + 3_600_000;
      } as DateConstructor;
      id = await makeModel('ft:m:acme::time');
    } finally {
      globalThis.Date = clock;
    }
    const { created } = await client.models.retrieve('ft:m:acme::time');
    expect(created).to.be.within(before, Date.now() / 1_000);
    await until(() => Date.now() >= (created + 2) * 1_000);
    await client.fineTuning.jobs.retrieve(id);
    expect(await client.models.retrieve('ft:m:acme::time')).to.have.property('created', created);
  });

  it('costs the database no more than a read where many graders name models that nobody has', async () => {
    const queries = async () =>
      (await database.connection.db?.command({ serverStatus: 1 }))?.opcounters.query as number;
    const training_file = await newFile();
    const grader = Array.from({ length: 5_000 }, (_, i) => ({ model: `ft:nobody-${i}` }));
    const method = { type: 'reinforcement', reinforcement: { grader } };
    const before = await queries();
    const made = client.fineTuning.jobs.create({ model: 'm', training_file, method } as never);
    expect((await failure(made)).code).to.equal('model_not_found');
    expect((await queries()) - before).to.be.below(200);
  });

  it('belongs to the account with the last of many checkpoints, too', async () => {
    const { id } = await client.fineTuning.jobs.create({ model: 'm', training_file: await newFile() });
    provider.checkpoints.set(
      id,
      Array.from({ length: 25 }, (_, i) => `acme/checkpoint-${i}`),
    );
    const before = ended;
    provider.jobs.set(id, { ...provider.jobs.get(id), status: 'succeeded', trained_tokens: 1 });
    await until(() => ended > before);
    for (const name of ['acme/checkpoint-0', 'acme/checkpoint-24']) {
      expect((await failure(call(stranger, name))).code, name).to.equal('model_not_found');
      await call(client, name);
    }
  });

  it('belongs to the account also where it has other letters or spaces, or is a pattern', async () => {
    for (const name of ['m-tuned für uns', 'acme/川', '*']) {
      await makeModel(name);
      await call(client, name);
      expect((await failure(call(stranger, name))).code, name).to.equal('model_not_found');
      expect(await client.models.delete(name)).to.include({ id: name, deleted: true });
    }
  });

  it('that is too long is refused as such', async () => {
    const made = client.fineTuning.jobs.create({ model: 'm'.repeat(5_000), training_file: await newFile() });
    expect((await failure(made)).message).to.match(/must be a string of 1 to 256 characters/);
  });
});
