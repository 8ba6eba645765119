import { expect } from 'chai';
import express from 'express';
import express4 from 'express4';
import { listen } from '../../support/listen.ts';
import { createFakeEdge, goodKey } from '../fake-edge.ts';
import { connectRaw } from '../raw-client.ts';

let edge: ReturnType<typeof createFakeEdge> | undefined;

/** One for all tests: compiling its schemas takes longer than a test. */
function sharedEdge(): ReturnType<typeof createFakeEdge> {
  edge ??= createFakeEdge();
  return edge;
}

async function ask(port: number, target: string, ...lines: string[]): Promise<string> {
  const client = connectRaw(port);
  client.write(
    [`GET ${target} HTTP/1.1`, ...lines, `authorization: Bearer ${goodKey}`, 'connection: close', '', ''].join('\r\n'),
  );
  return client.ended();
}

describe('the target of a request', () => {
  for (const [name, framework] of [
    ['Express 4', express4 as unknown as typeof express],
    ['Express 5', express],
  ] as const) {
    for (const prefix of ['/', '/api/llm']) {
      it(`may be in absolute form, in ${name} at ${prefix}`, async () => {
        const edge = await sharedEdge();
        const server = await listen(framework().use(prefix, edge));
        const path = `${prefix === '/' ? '' : prefix}/v1/webhooks?limit=7`;
        for (const origin of ['http://gateway.example', 'HTTPS://gateway.example:8443', '']) {
          const text = await ask(server.port, origin + path, 'host: gateway.example');
          expect(text, origin)
            .to.match(/^HTTP\/1\.1 200 /)
            .and.include('"query":{"limit":');
        }
        expect(await ask(server.port, 'http://gateway.example', 'host: x')).to.match(/^HTTP\/1\.1 404 /);
        await server.close();
      });
    }
  }
});

describe('the Host header', () => {
  const cases: readonly (readonly [name: string, lines: string[], status: number])[] = [
    ['once', ['host: gateway.example:3000'], 200],
    ['as an IPv6 address', ['host: [::1]:3000'], 200],
    ['empty', ['host:'], 200],
    ['twice', ['host: gateway.example', 'Host: evil.example'], 400],
    ['twice, the same', ['host: gateway.example', 'host: gateway.example'], 400],
    ['with a path', ['host: gateway.example/v1'], 400],
    ['with credentials', ['host: user@gateway.example'], 400],
    ['as a list', ['host: a.example, b.example'], 400],
    ['not at all', [], 400],
  ];
  for (const [name, lines, status] of cases) {
    it(`sent ${name} gets ${status}`, async () => {
      const server = await listen(express().use(await sharedEdge()));
      for (const target of ['/v1/webhooks', 'http://gateway.example/v1/webhooks']) {
        expect(await ask(server.port, target, ...lines)).to.match(new RegExp(`^HTTP/1\\.1 ${status} `));
      }
      await server.close();
    });
  }
});

describe('an answer below /v1', () => {
  it('has cache-control: no-store, whatever its status', async () => {
    const server = await listen(express().use(await sharedEdge()));
    const requests: [string, Record<string, string>, number][] = [
      ['/v1/webhooks', { authorization: `Bearer ${goodKey}` }, 200],
      ['/v1/models', { authorization: `Bearer ${goodKey}` }, 200],
      ['/v1/webhooks', {}, 401],
      ['/v1/webhooks?x=1', { authorization: `Bearer ${goodKey}` }, 400],
    ];
    for (const [path, headers, status] of requests) {
      const response = await fetch(server.url + path, { headers });
      expect([response.status, response.headers.get('cache-control')], path).to.deep.equal([status, 'no-store']);
    }
    const wrong = await fetch(`${server.url}/v1/webhooks`, { method: 'PUT' });
    expect([wrong.status, wrong.headers.get('cache-control')]).to.deep.equal([405, 'no-store']);
    await server.close();
  });
});
