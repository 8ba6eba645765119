import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { json } from '../../support/upstream.ts';

describe('an account with credits that calls audio endpoints', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let account: LiveAccount;

  before(async () => {
    database = await freshDatabase();
    account = await startAccount(
      {},
      {
        mongo: database.connection,
        credits: {
          prices: { '*': { input: 1, output: 1 }, 'tts-1': { character: 1_000 }, 'whisper-1': { second: 0.01 } },
          initialBalance: 1,
        },
      },
    );
  });
  after(async () => {
    await account?.close();
    await database.drop();
  });

  const get = async (path: string) => (await account.live.call('GET', path)).body;
  const spent = async (requests: number) => {
    await until(async () => (await get('/v1/usage')).data[0]?.requests === requests, 15_000);
    return 1 - (await get('/v1/credits')).credits_remaining;
  };

  it('pays for characters and seconds but not for moderation, and sees them in its usage', async () => {
    const { client, upstream } = account;
    upstream.script = json(200, Buffer.from('audio'), { 'content-type': 'audio/mpeg' });
    await client.audio.speech.create({ model: 'tts-1', input: 'x'.repeat(100), voice: 'alloy' });
    expect(await spent(1)).to.be.closeTo(0.1, 1e-9);

    upstream.script = json(200, { text: 'a', usage: { type: 'duration', seconds: 30 } });
    const file = await toFile(Buffer.alloc(100), 'talk.mp3');
    await client.audio.transcriptions.create({ model: 'whisper-1', file });
    expect(await spent(2)).to.be.closeTo(0.4, 1e-9);

    upstream.script = json(200, { id: 'modr-1', model: 'm', results: [{}] });
    await client.moderations.create({ model: 'm', input: 'x'.repeat(10_000) });
    expect(await spent(3)).to.be.closeTo(0.4, 1e-9);

    const { data } = await get('/v1/usage');
    expect(data).to.have.length(1);
    expect(data[0]).to.include({ requests: 3, input_tokens: 0, output_tokens: 0, seconds: 30, characters: 100 });
  });

  it('is refused speech when its credits are used up, but may still call moderation', async () => {
    const { client, upstream } = account;
    upstream.script = json(200, Buffer.from('audio'), { 'content-type': 'audio/mpeg' });
    await client.audio.speech.create({ model: 'tts-1', input: 'x'.repeat(600), voice: 'alloy' });
    const refusal = await client.audio.speech
      .create({ model: 'tts-1', input: 'x', voice: 'alloy' })
      .then(() => undefined)
      .catch((error: unknown) => error);
    expect(refusal).to.be.instanceOf(OpenAI.APIError);
    expect((refusal as InstanceType<typeof OpenAI.APIError>).code).to.equal('insufficient_credits');
    upstream.script = json(200, { id: 'modr-1', model: 'm', results: [{}] });
    expect((await client.moderations.create({ input: 'a' })).id).to.equal('modr-1');
  });
});
