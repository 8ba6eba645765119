import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { failure, responseOf, type StoredSetup, startStored } from '../stored/support.ts';
import { json } from '../support/upstream.ts';

describe('an API key that may call some models only', () => {
  let setup: StoredSetup;
  let limited: OpenAI;

  before(async () => {
    setup = await startStored();
    const { key } = await setup.gateway.gateway.keys.create({ userId: 'usr_1', models: ['m'] });
    limited = new OpenAI({ apiKey: key, baseURL: `${setup.gateway.url}/v1`, maxRetries: 0 });
  });
  after(() => setup.close());

  /** Stores a response of the account that a key without limits has asked for. */
  async function store(id: string, model: string): Promise<void> {
    setup.one.script = json(200, responseOf(id, { model }));
    await setup.client.responses.create({ model, input: 'Hi' });
  }

  const requests = () => setup.one.requests.length + setup.two.requests.length;

  const calls: [what: string, call: (model: string) => PromiseLike<unknown>][] = [
    ['a response', (model) => limited.responses.create({ model, input: 'Hi' })],
    ['a stream of a response', (model) => limited.responses.create({ model, input: 'Hi', stream: true })],
    [
      'a transcription',
      async (model) => limited.audio.transcriptions.create({ model, file: await toFile(Buffer.alloc(8), 'a.mp3') }),
    ],
  ];
  for (const [what, call] of calls) {
    it(`is refused for ${what} of another model, before an upstream is called`, async () => {
      const before = requests();
      const { status, code, param } = await failure(call('both'));
      expect([status, code, param]).to.deep.equal([403, 'model_not_allowed', 'model']);
      expect(requests()).to.equal(before);
      setup.one.script = json(200, what === 'a transcription' ? { text: 'Hi' } : responseOf('resp_allowed'));
      await call('m');
      expect(requests()).to.equal(before + 1);
    });
  }

  it('does not find a stored response of another model, nor continue it', async () => {
    await store('resp_of_both', 'both');
    const before = requests();
    const ways = [
      () => limited.responses.retrieve('resp_of_both'),
      () => limited.responses.cancel('resp_of_both'),
      () => limited.responses.delete('resp_of_both'),
      () => limited.responses.inputItems.list('resp_of_both'),
      () => limited.responses.create({ model: 'm', input: 'Go on', previous_response_id: 'resp_of_both' }),
    ];
    for (const way of ways) {
      const { status, code } = await failure(way());
      expect([status, code]).to.deep.equal([404, 'response_not_found']);
    }
    expect(requests()).to.equal(before);
    setup.one.script = json(200, responseOf('resp_of_both'));
    expect((await setup.client.responses.retrieve('resp_of_both')).id).to.equal('resp_of_both');
  });

  it('finds a stored response of its model, whichever key of the account asked for it', async () => {
    await store('resp_of_m', 'm');
    setup.one.script = json(200, responseOf('resp_of_m'));
    expect((await limited.responses.retrieve('resp_of_m')).id).to.equal('resp_of_m');
  });
});
