import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';
import { failure } from './support.ts';

const examples = `${JSON.stringify({ messages: [{ role: 'user', content: 'Which river?' }] })}\n`;
const messages = [{ role: 'user' as const, content: 'Which river?' }];

describe('fine-tuning', () => {
  let provider: FileProvider;
  let other: FileProvider;
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: LiveGateway;
  let beside: LiveGateway;
  let client: OpenAI;
  let stranger: OpenAI;
  let records: UsageRecord[];

  const start = () =>
    startGateway({
      mongo: database.connection,
      upstreams: [
        { name: 'one', baseUrl: provider.baseUrl, apiKey: 'sk-up', models: ['*'], aliases: { small: 'm' } },
        // serves every model, too, and is asked later
        { name: 'two', baseUrl: other.baseUrl, models: ['*'], priority: 1 },
      ],
      background: { pollInterval: 20 },
      credits: { prices: { '*': { input: 1, output: 1, training: 1_000 } }, initialBalance: 10 },
      onUsage: (record) => {
        if (record.endpoint === '/fine_tuning/jobs') records.push(record);
      },
    });
  const clientOf = (apiKey: string, at = gateway) => new OpenAI({ apiKey, baseURL: `${at.url}/v1`, maxRetries: 0 });

  before(async () => {
    provider = await FileProvider.start();
    other = await FileProvider.start();
    other.prefix = 'of-two-';
    database = await freshDatabase();
    gateway = await start();
    beside = await start();
    client = clientOf(gateway.key);
    stranger = clientOf((await gateway.gateway.keys.create({ userId: 'usr_2' })).key);
  });
  beforeEach(() => {
    records = [];
  });
  after(async () => {
    await gateway.close();
    await beside.close();
    await database.drop();
    await provider.close();
    await other.close();
  });

  const newFile = async (by = client, text = examples) =>
    (await by.files.create({ file: await toFile(Buffer.from(text), 'a.jsonl'), purpose: 'fine-tune' })).id;
  const newJob = async (by = client, fields: Partial<OpenAI.FineTuning.JobCreateParams> = {}) =>
    by.fineTuning.jobs.create({ model: 'm', training_file: await newFile(by), ...fields });
  const change = (id: string, fields: object) => provider.jobs.set(id, { ...provider.jobs.get(id), ...fields });
  const succeed = (id: string, model: string, trained: number | null = 1_000) =>
    change(id, { status: 'succeeded', fine_tuned_model: model, trained_tokens: trained });
  const counted = async (count = 1) => {
    await until(() => records.length >= count);
    expect(records).to.have.length(count);
  };
  /** A job that has ended, and been counted. @returns the name of its model */
  async function newModel(model: string, by = client): Promise<string> {
    const { id } = await newJob(by);
    provider.models.add(model);
    succeed(id, model, 1);
    const before = records.length;
    // its record may come behind that of another job
    await until(async () => records.length > before && (await listed(by)).includes(model));
    return model;
  }
  const call = (by: OpenAI, model: string) => by.chat.completions.create({ model, messages });
  const calledAt = (model: string) =>
    [provider, other].map(({ bodies }) => bodies.filter((body) => body.includes(`"${model}"`)).length);
  const listed = async (by: OpenAI) => (await by.models.list()).data.map(({ id }) => id);

  it('goes through its whole life for its account alone', async () => {
    const { id } = await newJob(client, { metadata: { topic: 'rivers' } });
    const foreign = await newJob(stranger);
    const { jobs } = client.fineTuning;
    expect((await jobs.retrieve(id)).status).to.equal('queued');
    expect((await jobs.list()).data.map((job) => job.id)).to.deep.equal([id]);
    expect((await jobs.list({ metadata: { topic: 'rivers' } })).data).to.have.length(1);
    expect((await jobs.list({ metadata: { topic: 'lakes' } })).data).to.have.length(0);
    expect((await jobs.pause(id)).status).to.equal('paused');
    expect((await jobs.resume(id)).status).to.equal('running');
    expect((await jobs.listEvents(id)).data.map(({ message }) => message)).to.deep.equal([id]);
    expect((await jobs.checkpoints.list(id)).data).to.deep.equal([]);
    expect((await jobs.cancel(id)).status).to.equal('cancelled');
    await counted();
    expect(records[0]).to.include({ inputTokens: 0, outputTokens: 0, estimated: false, ending: 'complete' });
    for (const [theirs, code] of [
      [foreign.id, 'fine_tuning_job_not_found'],
      ['ftjob-unknown', 'fine_tuning_job_not_found'],
      ['..%2Ffiles', 'fine_tuning_job_not_found'],
      ['a b', 'fine_tuning_job_not_found'],
    ] as const) {
      for (const refused of [
        () => jobs.retrieve(theirs),
        () => jobs.cancel(theirs),
        () => jobs.pause(theirs),
        () => jobs.resume(theirs),
        () => jobs.listEvents(theirs),
        () => jobs.checkpoints.list(theirs),
      ]) {
        const error = await failure(refused());
        expect([error.status, error.code]).to.deep.equal([404, code]);
      }
    }
    change(foreign.id, { status: 'cancelled' });
    await counted(2);
  });

  it('lists page by page, without those of others', async () => {
    const by = clientOf((await gateway.gateway.keys.create({ userId: 'usr_pages' })).key);
    const ids: string[] = [];
    for (let i = 0; i < 5; i += 1) {
      ids.unshift((await newJob(by)).id);
      if (i % 2) await newJob(stranger);
    }
    const found: string[] = [];
    for await (const job of by.fineTuning.jobs.list({ limit: 2 })) found.push(job.id);
    expect(found).to.deep.equal(ids);
    for (const id of provider.jobs.keys()) change(id, { status: 'cancelled' });
    await until(() => records.length === 7);
  });

  it('is charged once by what was trained, at the price of training, over two gateways', async () => {
    const balance = async () => (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
    const before = await balance();
    const { id } = await newJob();
    succeed(id, 'ft:m:acme::charged', 2_500);
    await counted();
    expect(records[0]).to.include({
      model: 'm',
      upstream: 'one',
      inputTokens: 2_500,
      outputTokens: 0,
      estimated: false,
    });
    await until(async () => (await balance()) !== before);
    expect(Math.round((before - (await balance())) * 1_000)).to.equal(2_500);
    await client.fineTuning.jobs.retrieve(id);
    await clientOf(gateway.key, beside).fineTuning.jobs.retrieve(id);
    expect(records).to.have.length(1);
  });

  it('is charged by estimate where a job that has succeeded does not say what it has trained', async () => {
    const { id } = await newJob(client, {
      method: { type: 'supervised', supervised: { hyperparameters: { n_epochs: 5 } } },
    });
    succeed(id, 'ft:m:acme::silent', null);
    await counted();
    expect(records[0]).to.include({ inputTokens: 5 * Math.ceil(examples.length / 4), estimated: true });
  });

  it('costs nothing where it has failed', async () => {
    const { id } = await newJob();
    change(id, { status: 'failed', error: { code: 'invalid', message: 'No', param: 'training_file' } });
    await counted();
    expect(records[0]).to.include({ inputTokens: 0, ending: 'upstream_failed' });
  });

  it('is followed to its end by another process where the gateway that began it has stopped', async () => {
    const { id } = await newJob();
    await beside.close();
    await gateway.close();
    succeed(id, 'ft:m:acme::restarted', 700);
    gateway = await start();
    beside = await start();
    client = clientOf(gateway.key);
    stranger = clientOf((await gateway.gateway.keys.create({ userId: 'usr_2' })).key);
    await counted();
    expect(records[0]).to.include({ inputTokens: 700 });
    // the model is known from the start, without a look at the job
    expect(await call(client, 'ft:m:acme::restarted')).to.have.property('object', 'chat.completion');
  });

  describe('makes a model that', () => {
    for (const model of ['ft:m:acme::7p4lURel', 'acme/m-tuned-4711']) {
      describe(`is called ${model}`, () => {
        before(() => newModel(model));

        it('its account calls, at the upstream that has made it', async () => {
          const [before = 0, elsewhere] = calledAt(model);
          for (let i = 0; i < 4; i += 1) await call(client, model);
          await client.embeddings.create({ model, input: 'Hi' }).catch(() => {});
          expect(calledAt(model)).to.deep.equal([before + 5, elsewhere]);
        });

        it('its account calls through another process at once', async () => {
          const mine = clientOf(gateway.key, beside);
          expect(await call(mine, model)).to.have.property('object', 'chat.completion');
          expect((await mine.models.retrieve(model)).id).to.equal(model);
        });

        it('is listed and described for its account alone', async () => {
          expect(await listed(client)).to.include(model);
          expect(await client.models.retrieve(model)).to.include({ id: model, owned_by: 'usr_1' });
          expect(await listed(stranger)).to.not.include(model);
        });

        it('a key that is limited to some models calls only where it is one of them', async () => {
          const limited = (models: string[]) => gateway.gateway.keys.create({ userId: 'usr_1', models });
          const base = clientOf((await limited(['m'])).key);
          expect((await failure(call(base, model))).code).to.equal('model_not_allowed');
          expect(await listed(base)).to.not.include(model);
          const named = clientOf((await limited([model])).key);
          expect(await call(named, model)).to.have.property('object', 'chat.completion');
        });

        it('a job trains further, for its account alone', async () => {
          const { id } = await newJob(client, { model });
          expect(provider.jobs.get(id)).to.include({ model });
          const before = provider.jobs.size;
          expect((await failure(newJob(stranger, { model }))).code).to.equal('model_not_found');
          expect(provider.jobs.size).to.equal(before);
          change(id, { status: 'cancelled' });
          await until(() => records.length > 0);
        });
      });
    }

    it('nobody else gets at, whatever asks for it, in any process', async () => {
      const only = await startGateway({
        mongo: database.connection,
        upstreams: [{ name: 'one', baseUrl: provider.baseUrl, models: ['*'] }],
        background: { pollInterval: 20 },
      });
      const { key } = await only.gateway.keys.create({ userId: 'usr_2' });
      const by = clientOf(key, only);
      const unknown = await failure(call(by, 'ft:m:acme::unknown'));
      for (const model of [await newModel('ft:m:acme::only'), await newModel('acme/m-only')]) {
        // what another process records, this one learns within a second
        await until(async () => !(await listed(by)).includes(model));
        await until(() =>
          call(by, model).then(
            () => false,
            ({ code }) => code === unknown.code,
          ),
        );
        const before = calledAt(model);
        const file = await newFile(by);
        const line = JSON.stringify({ url: '/v1/chat/completions', body: { model, messages } });
        for (const refused of [
          () => call(by, model),
          () => by.completions.create({ model, prompt: 'Hi' }),
          () => by.responses.create({ model, input: 'Hi' }),
          () => by.embeddings.create({ model, input: 'Hi' }),
          () => by.audio.speech.create({ model, input: 'Hi', voice: 'alloy' }),
          () => by.fineTuning.jobs.create({ model, training_file: file }),
          () => by.models.retrieve(model),
          () => by.models.delete(model),
          () =>
            newFile(by, line).then((input_file_id) =>
              by.batches.create({ input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' }),
            ),
          () =>
            by.fineTuning.jobs.create({
              model: 'm',
              training_file: file,
              method: {
                type: 'reinforcement',
                reinforcement: { grader: { type: 'score_model', name: 'a', model, input: [] } },
              },
            }),
        ]) {
          const error = await failure(refused());
          expect([error.status, error.code], error.message).to.deep.equal([unknown.status, unknown.code]);
        }
        expect(calledAt(model)).to.deep.equal(before);
        expect(await listed(by)).to.not.include(model);
      }
      await only.close();
    });

    it('does not keep others from a model of the same name at another upstream', async () => {
      const name = await newModel('gpt-shared');
      other.models.add(name);
      const [at, elsewhere = 0] = calledAt(name);
      await call(stranger, name);
      expect(calledAt(name)).to.deep.equal([at, elsewhere + 1]);
    });

    it('belongs to the account before an answer or a list names it', async () => {
      const { id } = await newJob();
      for (const [model, read] of [
        ['early-1', () => client.fineTuning.jobs.retrieve(id)],
        ['early-2', () => client.fineTuning.jobs.list()],
        ['early-3', () => client.fineTuning.jobs.pause(id)],
      ] as const) {
        change(id, { status: 'running', fine_tuned_model: model });
        await read();
        const [mine = 0, others] = calledAt(model);
        await call(client, model);
        expect(calledAt(model)).to.deep.equal([mine + 1, others]);
      }
      provider.checkpoints.set(id, ['early-4:ckpt-step-90']);
      await client.fineTuning.jobs.checkpoints.list(id);
      await call(client, 'early-4:ckpt-step-90');
      expect(calledAt('early-4:ckpt-step-90')).to.deep.equal([1, 0]);
      change(id, { status: 'cancelled' });
      await counted();
    });

    it('has checkpoints, which belong to the account although it has never asked for them', async () => {
      const { id } = await newJob();
      provider.checkpoints.set(id, ['ft:m:acme::c:ckpt-step-10', 'ft:m:acme::c:ckpt-step-20']);
      succeed(id, 'ft:m:acme::c');
      await counted();
      await call(client, 'ft:m:acme::c:ckpt-step-20');
      expect((await failure(call(stranger, 'ft:m:acme::c:ckpt-step-20'))).code).to.equal('model_not_found');
    });

    it('its account deletes, and no answer brings back', async () => {
      const name = await newModel('ft:m:acme::deleted');
      expect((await failure(stranger.models.delete(name))).code).to.equal('model_not_found');
      expect(await client.models.delete(name)).to.include({ id: name, deleted: true });
      const jobs = await client.fineTuning.jobs.list();
      expect(jobs.data.some((job) => job.fine_tuned_model === name)).to.equal(true);
      expect(await listed(client)).to.not.include(name);
      expect((await failure(call(client, name))).code).to.equal('model_not_found');
      for (const unknown of [name, 'm', 'ft:nobody', '...', 'a//b', ' ']) {
        expect((await failure(client.models.delete(unknown))).code).to.equal('model_not_found');
      }
    });

    it('is nobody else’s where its provider lists it before its job has ended', async () => {
      provider.models.add('ft:m:acme::early');
      expect((await failure(call(stranger, 'ft:m:acme::early'))).code).to.equal('model_not_found');
      expect(await listed(stranger)).to.not.include('ft:m:acme::early');
    });
  });

  it('makes files that belong to the account', async () => {
    const { id } = await newJob();
    const results = ['a', 'b'].map((text) => provider.keep(Buffer.from(text), text, 'fine-tune-results').id);
    change(id, { status: 'running', result_files: results });
    expect((await client.fineTuning.jobs.retrieve(id)).result_files).to.deep.equal(results);
    for (const file of results) {
      expect((await client.files.retrieve(file)).id).to.equal(file);
      expect((await failure(stranger.files.retrieve(file))).code).to.equal('file_not_found');
    }
    const found = (await client.files.list({ purpose: 'fine-tune-results' })).data.map((file) => file.id);
    expect(found).to.have.members(results);
    change(id, { status: 'cancelled' });
    await counted();
  });

  describe('is refused', () => {
    const posts = () => provider.seen.filter(({ method, path }) => method === 'POST' && /jobs$/.test(path)).length;
    async function refused(made: PromiseLike<unknown>) {
      const before = posts();
      const error = await failure(made);
      expect(posts()).to.equal(before);
      return error;
    }

    it('with a file of another account', async () => {
      const foreign = await newFile(stranger);
      for (const field of ['training_file', 'validation_file']) {
        const error = await refused(newJob(client, { [field]: foreign }));
        expect([error.code, error.param]).to.deep.equal(['file_not_found', field]);
      }
    });

    it('with a model that the key may not train', async () => {
      const { key } = await gateway.gateway.keys.create({ userId: 'usr_1', models: ['n'] });
      expect((await refused(newJob(clientOf(key)))).code).to.equal('model_not_allowed');
    });

    it('with fields in which some providers take a model, a checkpoint or a secret', async () => {
      for (const field of ['from_checkpoint', 'Model', 'base_model', 'hf_api_token']) {
        const error = await refused(newJob(client, { [field]: 'x' }));
        expect([error.code, error.param]).to.deep.equal(['unknown_parameter', field]);
      }
    });

    it('where the account has not as much as it may cost, together with its others', async () => {
      await gateway.gateway.credits?.topUp({ userId: 'usr_3', credits: 0.5, reference: 'few' });
      const by = clientOf((await gateway.gateway.keys.create({ userId: 'usr_3' })).key);
      const training_file = await newFile(by, 'x'.repeat(10_000));
      const made = await Promise.allSettled([1, 2, 3].map(() => newJob(by, { training_file })));
      const jobs = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value.id] : []));
      const errors = made.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
      expect([jobs.length, errors]).to.deep.equal([1, ['insufficient_credits', 'insufficient_credits']]);
      change(jobs[0] ?? '', { status: 'cancelled' });
      await counted();
    });
  });

  it('takes the upstream’s name for a model, and sends all else as it came', async () => {
    const { id } = await newJob(client, { model: 'small', suffix: 'é', seed: 42 });
    const sent = provider.bodies.findLast((body) => body.includes('"suffix"')) ?? '';
    expect(JSON.parse(sent)).to.deep.include({ model: 'm', suffix: 'é', seed: 42 });
    change(id, { status: 'cancelled' });
    await counted();
  });

  it('is made once, although its provider gives no answer', async () => {
    const patient = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 2 });
    const training_file = await newFile();
    let posts = 0;
    provider.onRequest = (req, res) => {
      if (req.method === 'GET') return void res.writeHead(200).end('{"bytes":10}');
      posts += 1;
      req.socket.destroy();
    };
    const made = patient.fineTuning.jobs.create({ model: 'm', training_file });
    expect((await failure(made)).code).to.equal('upstream_disconnected');
    provider.onRequest = undefined;
    expect(posts).to.equal(1);
  });
});
