import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { createModelGateway } from '../../../src/index.ts';
import { freshUri } from '../../support/mongo.ts';
import { run } from '../command.ts';

const keyOf = (id: string) => `${id}:${randomBytes(32).toString('base64')}`;

describe('express-model-gateway reseal', () => {
  it('seals every secret with the first key, so that the old keys can be removed', async () => {
    const [old, fresh] = [keyOf('old'), keyOf('fresh')];
    const mongo = freshUri();
    const webhook = { url: 'https://example.com/', events: ['credits.low'], secret: 'a secret of a customer' };
    const gateway = await createModelGateway({ mongo, secretKeys: [old] });
    const { id } = await gateway.webhooks.create('usr_1', webhook);
    await gateway.close();

    const env = { MONGODB_URI: mongo, SECRET_KEYS: `${fresh},${old}` };
    expect(await run(['reseal'], env)).to.deep.include({ code: 0, stdout: 'Resealed: 1', stderr: '' });
    expect((await run(['reseal'], env)).stdout).to.equal('Resealed: 0');

    const without = await createModelGateway({ mongo, secretKeys: [fresh] });
    expect(await without.webhooks.get('usr_1', id)).to.include({ id });
    await without.close();
    const { code, stderr } = await run(['reseal'], { ...env, SECRET_KEYS: old });
    expect(code).to.equal(1);
    expect(stderr).to.include("'fresh'").and.not.include(fresh).and.not.include(old);
  });

  it('refuses to run without SECRET_KEYS', async () => {
    const { code, stderr } = await run(['reseal'], { MONGODB_URI: freshUri() });
    expect(code).to.equal(1);
    expect(stderr).to.include('SECRET_KEYS');
  });
});
