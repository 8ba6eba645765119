import { expect } from 'chai';
import { respond, SocketUpstream } from '../../sockets/socket-upstream.ts';
import { refusalOf, SocketClient } from '../../sockets/support.ts';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { CommandProcess } from '../command.ts';

describe('a stand-alone gateway', () => {
  it('serves WebSockets, and closes them when it stops', async () => {
    const upstream = await SocketUpstream.start();
    upstream.onEvent = (_event, socket) => respond(socket);
    const gateway = new CommandProcess(['start'], {
      ...{ MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: '0', LOG_LEVEL: 'silent' },
      ...{ UPSTREAM_BASE_URL: upstream.baseUrl, UPSTREAM_API_KEY: 'sk-up' },
      OPTIONS_FILE: '{"sockets":{"maxPerAccount":1}}',
    });
    const [, baseUrl = ''] = await gateway.until(/^Base URL: (\S+)$/m);
    const [, key = ''] = await gateway.until(/^API key: (\S+)$/m);
    const url = `${baseUrl.replace('http', 'ws')}/realtime?model=talk`;
    const client = await SocketClient.open(url, key);
    client.send({ type: 'response.create' });
    await client.event('response.done');
    expect((await refusalOf(url, { authorization: `Bearer ${key}` })).status).to.equal(429);
    const stopped = gateway.end();
    expect(await client.whenClosed()).to.deep.equal({ code: 1001, reason: 'shutting_down' });
    await stopped;
    await upstream.close();
  });
});
