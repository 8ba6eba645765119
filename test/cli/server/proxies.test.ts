import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import OpenAI from 'openai';
import { newSecretKey } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { createAuthority } from '../../support/servers/certificates.ts';
import { ForwardProxy } from '../../support/servers/forward-proxy.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { CommandProcess } from '../command.ts';

describe('a stand-alone gateway with HTTPS_PROXY', () => {
  it('calls an upstream over TLS, in a tunnel of a proxy that is spoken to over TLS', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'emg-proxies-'));
    const authority = createAuthority();
    const ca = path.join(folder, 'ca.pem');
    writeFileSync(ca, authority.cert);
    const upstream = await ScriptedUpstream.start(authority.issue({ name: 'models.invalid' }));
    const certificate = authority.issue({ name: 'localhost' });
    const proxy = await ForwardProxy.start({ certificate, credentials: 'somebody:canary-password' });
    proxy.hosts['models.invalid'] = Number(new URL(upstream.baseUrl).port);
    upstream.script = json(200, {
      ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm' },
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    });
    const gateway = new CommandProcess(['start'], {
      ...{ MONGODB_URI: freshUri(), SECRET_KEYS: newSecretKey(), PORT: '0', NODE_EXTRA_CA_CERTS: ca },
      ...{ UPSTREAM_BASE_URL: 'https://models.invalid/v1', UPSTREAM_API_KEY: 'sk-up', HTTPS_PROXY: proxy.url() },
    });
    try {
      const [, baseURL = ''] = await gateway.until(/^Base URL: (\S+)$/m);
      const [, apiKey = ''] = await gateway.until(/^API key: (\S+)$/m);
      const client = new OpenAI({ apiKey, baseURL, maxRetries: 0 });
      const ask = () => client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
      for (let i = 0; i < 2; i += 1) expect((await ask()).choices[0]?.message.content).to.equal('Hello');
      expect(proxy.tunnels).to.deep.equal(['models.invalid:443']);
      expect(upstream.last.headers)
        .to.include({ host: 'models.invalid', authorization: 'Bearer sk-up' })
        .and.not.have.property('proxy-authorization');
    } finally {
      await gateway.end();
      await Promise.all([proxy.close(), upstream.close()]);
      rmSync(folder, { recursive: true });
    }
    expect(gateway.stdout + gateway.stderr).to.not.include('canary');
  });
});
