import { expect } from 'chai';
import mongoose from 'mongoose';
import request from 'supertest';
import type { ErrorBody, Principal, Scope } from '../../../src/index.ts';
import { serve } from '../../http/fake-edge.ts';
import { startGateway } from '../../support/gateway.ts';
import { recordingLogger } from '../../support/logger.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const user = { userId: 'usr_1' };

/** What hosts give by mistake, the field that is wrong, and what the log says of it. */
const mistakes: readonly (readonly [given: unknown, said: RegExp])[] = [
  [{}, /userId must be a string of 1 to 256 characters; give String\(user\.id\).*, not undefined/],
  [{ userId: undefined }, /userId must be .* not undefined/],
  [{ userId: null }, /userId must be .* not null/],
  [{ userId: '' }, /userId must be .* not this string/],
  [{ userId: 7 }, /userId must be .* not this number/],
  [{ userId: new mongoose.Types.ObjectId() }, /userId must be .* not this object/],
  [{ userId: 'x'.repeat(257) }, /userId must be a string of 1 to 256/],
  [{ userId: 'a\0b' }, /userId must be/],
  [{ userId: '\ud800' }, /userId must be/],
  [{ userId: { $ne: null } }, /userId must be .* not this object/],
  [{ ...user, keyId: 5 }, /keyId must be a string/],
  [{ ...user, keyId: '' }, /keyId must be a string/],
  [{ ...user, scopes: 'models' }, /scopes must be a list of models, webhooks, .*, not this string/],
  [{ ...user, scopes: ['model'] }, /scopes must be a list of/],
  [{ ...user, scopes: null }, /scopes must be .* not null/],
  [{ ...user, models: 'gpt-5' }, /models must be a list of models' names/],
  [{ ...user, models: [undefined] }, /models must be/],
  [{ ...user, models: [''] }, /models must be/],
  [{ ...user, expiresAt: Date.now() }, /expiresAt must be a valid Date/],
  [{ ...user, expiresAt: new Date('never') }, /expiresAt must be a valid Date/],
  ['usr_1', /must give \{ userId \}, or null if no user is signed in, not this string/],
  [true, /must give \{ userId \}/],
  [[], /userId must be/],
];

describe('what the host returns for an authenticated request', () => {
  for (const option of ['authenticate', 'dashboard.authenticate']) {
    it(`needs valid fields, or the answer is 500 and the log names the mistake: ${option}`, async () => {
      const logger = recordingLogger();
      let given: unknown;
      let called = 0;
      const relay = {
        async relay() {
          called += 1;
        },
      };
      const sync = () => given as Principal;
      const async = async () => given as Principal;
      let authenticate: () => Principal | Promise<Principal> = sync;
      const server = await serve({
        authenticate: () => authenticate(),
        authenticateOption: option,
        logger,
        relay,
      });
      for (const [mistake, said] of mistakes) {
        given = mistake;
        authenticate = authenticate === sync ? async : sync;
        const { status, body } = await request(server.url).get('/v1/models');
        expect([status, body.error?.code], said.source).to.deep.equal([500, 'internal_error']);
        const fields = logger.lines.at(-1)?.fields as { error: string } | undefined;
        expect(fields?.error).to.include(`the option ${option} `).and.match(said);
      }
      expect(called).to.equal(0);
      await server.close();
    });
  }

  it('needs a userId that is a string, or its model calls do not reach the upstream', async () => {
    const upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}] });
    const logger = recordingLogger();
    let given: unknown = user;
    const live = await startGateway({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      authenticate: async () => given as Principal,
      logger,
    });
    const ask = async () => {
      const chat = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };
      const { status, body } = await live.call('POST', '/v1/chat/completions', chat);
      return [status, (body as Partial<ErrorBody>).error?.code];
    };
    try {
      expect(await ask()).to.deep.equal([200, undefined]);
      for (const userId of [undefined, 7, new mongoose.Types.ObjectId()]) {
        given = { userId };
        expect(await ask(), typeof userId).to.deep.equal([500, 'internal_error']);
        expect(JSON.stringify(logger.lines.at(-1))).to.match(/the option authenticate .*userId must be a string/);
      }
      expect(upstream.requests).to.have.length(1);
    } finally {
      await live.close();
      await upstream.close();
    }
  });

  it('means nobody when it is null, undefined or false: the answer is 401', async () => {
    let given: unknown = null;
    const server = await serve({ authenticate: () => given as Principal });
    for (given of [null, undefined, false]) {
      expect((await request(server.url).get('/v1/webhooks')).status).to.equal(401);
    }
    await server.close();
  });

  it('does not change during a call when the host changes its object, and keeps unknown fields', async () => {
    const given = { ...user, plan: 'pro', scopes: ['models'] as Scope[], models: ['m'] };
    const server = await serve({
      authenticate: () => given,
      relay: {
        async relay({ principal }, res) {
          given.userId = 'usr_2';
          given.scopes.push('admin');
          given.models.push('n');
          res.end(JSON.stringify(principal));
        },
      },
    });
    const principal = await (await fetch(`${server.url}/v1/models`)).json();
    await server.close();
    expect(principal).to.deep.equal({ ...user, plan: 'pro', scopes: ['models'], models: ['m'] });
  });
});
