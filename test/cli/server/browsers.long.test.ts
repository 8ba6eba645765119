import { expect } from 'chai';
import { build } from 'esbuild';
import { closeBrowserAfterwards, openPage } from '../../dashboard/browser.ts';
import { newSecretKey } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { CommandProcess } from '../command.ts';

/** What a page does with OpenAI's client: it reads a stream, an answer's headers and an error. */
const script = `
import OpenAI from 'openai';

window.tryGateway = async (baseURL, apiKey) => {
  const openai = new OpenAI({ baseURL, apiKey, maxRetries: 0, dangerouslyAllowBrowser: true });
  const call = { model: 'demo-echo', messages: [{ role: 'user', content: 'Hello, gateway' }] };
  let text = '';
  for await (const chunk of await openai.chat.completions.create({ ...call, stream: true })) {
    text += chunk.choices[0]?.delta.content ?? '';
  }
  const { response } = await openai.chat.completions.create(call).withResponse();
  const refused = await new OpenAI({ baseURL, apiKey: 'emg_wrong', dangerouslyAllowBrowser: true }).models
    .list()
    .catch((error) => ({ status: error.status, code: error.code, requestID: error.requestID }));
  return { text, requestId: response.headers.get('x-request-id'), refused };
};`;

describe("OpenAI's client in a page of another origin", () => {
  closeBrowserAfterwards();

  it('streams, and reads headers and errors, where CORS_ORIGINS names the origin, and reads nothing elsewhere', async () => {
    const bundled = await build({
      stdin: { contents: script, resolveDir: import.meta.dirname },
      bundle: true,
      write: false,
      format: 'iife',
      logLevel: 'silent',
    });
    const code = bundled.outputFiles[0]?.text ?? '';
    const site = await listen((req, res) => {
      const isScript = req.url === '/page.js';
      res.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
      res.end(isScript ? code : '<!doctype html><script src="/page.js"></script>');
    });
    const gateway = new CommandProcess(['start'], {
      MONGODB_URI: freshUri(),
      SECRET_KEYS: newSecretKey(),
      PORT: '0',
      CORS_ORIGINS: site.url,
    });
    try {
      const [, baseUrl] = await gateway.until(/^Base URL: (\S+)$/m);
      const [, key] = await gateway.until(/^API key: (\S+)$/m);
      const tryGateway = `tryGateway(${JSON.stringify(baseUrl)}, ${JSON.stringify(key)})`;
      const { page } = await openPage(site.url);
      await page.goto(site.url);
      const read = await page.evaluate<{ text: string; requestId: string; refused: object }>(tryGateway);
      expect(read.text).to.include('Hello, gateway');
      expect(read.requestId).to.match(/^req_/);
      expect(read.refused).to.include({ status: 401, code: 'invalid_api_key' });
      expect(read.refused).to.have.property('requestID').that.matches(/^req_/);

      // the same page under another name is another origin
      const { page: stranger } = await openPage(site.url);
      await stranger.goto(site.url.replace('127.0.0.1', 'localhost'));
      const refused = await stranger.evaluate<string>(`${tryGateway}.catch((error) => error.message)`);
      expect(refused).to.equal('Connection error.');
    } finally {
      await gateway.end();
      await site.close();
    }
  });
});
