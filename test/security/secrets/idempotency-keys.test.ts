import { expect } from 'chai';
import express from 'express';
import { createGateway, newSecretKey } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { callerKey, type ModelServer, startModelServer, strangerKey } from '../../support/model-server.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const chat = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });

async function send(url: string, headers: Record<string, string>): Promise<unknown> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: chat };
  const { number } = (await (await fetch(`${url}/chat/completions`, init)).json()) as { number: number };
  return { number };
}

/** Answers as a provider does that keeps the answer to each key. */
function keepingProvider(): Script {
  const answers = new Map<string, number>();
  return (res, request) => {
    const key = String(request.headers['idempotency-key']);
    const number = answers.get(key) ?? answers.size + 1;
    answers.set(key, number);
    return json(200, { choices: [{}], number })(res, request);
  };
}

describe('an Idempotency-Key', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, forwardHeaders: ['Idempotency-Key'] }],
    });
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  it('never gives an account the answer of another account', async () => {
    upstream.script = keepingProvider();
    const as = (key: string, idempotencyKey: string) =>
      send(server.baseUrl, { authorization: `Bearer ${key}`, 'idempotency-key': idempotencyKey });
    expect(await as(callerKey, 'order-1')).to.deep.equal({ number: 1 });
    expect(await as(strangerKey, 'order-1')).to.deep.equal({ number: 2 });
    // nor does one who has seen what went up
    expect(await as(strangerKey, String(upstream.requests[0]?.headers['idempotency-key']))).to.deep.equal({
      number: 3,
    });
    expect(await as(callerKey, 'order-1')).to.deep.equal({ number: 1 });
    expect(await as(callerKey, 'order-2')).to.deep.equal({ number: 4 });
  });

  it('is sent as the same value by every process until the oldest of secretKeys is removed', async () => {
    const [k9, k10] = [newSecretKey('k9'), newSecretKey('k10')];
    const database = await freshDatabase();
    upstream.script = json(200, { choices: [{}] });
    const sentWith = async (...secretKeys: string[]) => {
      const gateway = await createGateway({
        mongo: database.connection,
        secretKeys,
        authenticate: () => ({ userId: 'usr_1' }),
        upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      });
      const { url, close } = await listen(express().use(gateway.router));
      await send(`${url}/v1`, { 'idempotency-key': 'order-1' });
      await close();
      await gateway.close();
      return upstream.last.headers['idempotency-key'];
    };
    const first = await sentWith(k9);
    expect(await sentWith(k9)).to.equal(first);
    expect(await sentWith(k9, k10)).to.equal(first);
    expect(await sentWith(k10, k9)).to.equal(first);
    expect(await sentWith(k10)).not.to.equal(first);
    await database.drop();
  });
});
