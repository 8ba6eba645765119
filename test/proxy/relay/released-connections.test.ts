import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { hang, type Script, ScriptedUpstream } from '../../support/upstream.ts';

/** A vector that is none, and then bytes for as long as anybody takes them. */
const endlessBrokenVector: Script = (res) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.write(`{"data":[{"embedding":[0.1,null]},{"pad":"${'x'.repeat(400_000)}`);
  const more = (): void => {
    while (!res.destroyed && res.write('x'.repeat(64_000)));
    if (!res.destroyed) res.once('drain', more);
  };
  more();
};

describe('the connections of calls that are over', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let records: UsageRecord[];

  beforeEach(async () => {
    records = [];
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
  });
  afterEach(async () => {
    await server.close();
    await upstream.close();
  });

  it('end with their client, also those of requests that it has pipelined', async () => {
    upstream.script = hang;
    const { port } = new URL(server.baseUrl);
    const client = connect(Number(port), '127.0.0.1');
    await once(client, 'connect');
    const body = '{"model":"m","messages":[{"role":"user","content":"Hi"}]}';
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${callerKey}\r\n`;
    client.write(`${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`.repeat(5));
    await upstream.received(5);
    client.destroy();
    await until(() => upstream.sockets === 0);
    await until(() => records.length === 5);
    expect(records.map(({ ending }) => ending)).to.deep.equal(Array(5).fill('client_left'));
  });

  it('end when an answer cannot be sent', async () => {
    upstream.script = endlessBrokenVector;
    for (let i = 0; i < 3; i += 1) {
      const response = await fetch(`${server.baseUrl}/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
        body: '{"model":"m","input":"Hi","encoding_format":"base64"}',
      });
      expect(response.status).to.equal(502);
    }
    await until(() => upstream.sockets === 0);
  });
});
