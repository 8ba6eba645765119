import { expect } from 'chai';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { recordingLogger } from '../../support/logger.ts';
import { json } from '../../support/upstream.ts';

const question = { model: 'm', messages: [{ role: 'user' as const, content: 'Well?' }] };

describe('an upstream that fails', () => {
  const logger = recordingLogger();
  let account: LiveAccount;

  before(async () => {
    account = await startAccount({ prompt_tokens: 1, completion_tokens: 1 }, { logger, modelCalls: { attempts: 1 } });
  });
  after(() => account?.close());

  const ask = () => account.client.chat.completions.create(question).catch((error) => error);
  const told = () =>
    logger.lines
      .filter(({ message }) => /^an upstream (fails|answers)/.test(message))
      .map(({ message, fields }) => ({ message, ...fields }));

  it('is logged once, with its address, and once more when it answers again', async () => {
    const answer = account.upstream.script;
    const url = `${account.upstream.baseUrl}/chat/completions`;
    account.upstream.script = json(404, { error: { message: 'Unknown path' } });
    await ask();
    await ask();
    expect(told()).to.deep.equal([{ message: 'an upstream fails', upstream: 'up', url, reason: 404 }]);
    account.upstream.script = answer;
    await ask();
    await ask();
    account.upstream.script = json(404, { error: { message: 'Unknown model' } });
    await ask();
    expect(told().slice(1), 'a 404 of an address that is right').to.deep.equal([
      { message: 'an upstream answers again', upstream: 'up' },
    ]);
    account.upstream.script = (res) => void res.destroy();
    await ask();
    expect(told().slice(2)).to.deep.equal([{ message: 'an upstream fails', upstream: 'up', url, reason: 'reset' }]);
  });

  it('is left out of the list of models, and the log has the status that it answered', async () => {
    account.upstream.script = json(500, { error: { message: 'Out of order' } });
    expect(await account.client.models.list().catch((error) => error)).to.include({ status: 502 });
    expect(logger.lines.find(({ message }) => message.includes('left out'))?.fields).to.deep.equal({
      upstream: 'up',
      code: 'invalid_response',
      status: 500,
    });
  });
});
