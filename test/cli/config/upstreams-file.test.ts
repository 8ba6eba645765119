import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { readConfiguration } from '../../../src/cli/config/config.ts';

const openai = { name: 'openai', baseUrl: 'https://api.openai.com/v1', models: ['gpt-*'] };
const azure = { name: 'azure', baseUrl: 'https://x.openai.azure.com/openai/v1', priority: 1 };

describe('UPSTREAMS_FILE', () => {
  let folder: string;
  let file: string;

  before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'emg-upstreams-'));
    file = path.join(folder, 'upstreams.json');
  });
  after(() => rmSync(folder, { recursive: true }));

  function read(content: unknown, env: Record<string, string> = {}) {
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
    return readConfiguration({ UPSTREAMS_FILE: file, ...env });
  }

  function refusal(content: unknown, env: Record<string, string> = {}): string {
    try {
      read(content, env);
    } catch (error) {
      expect(error).to.include({ code: 'invalid_options' });
      return (error as Error).message.replaceAll(file, 'FILE');
    }
    throw new Error('nothing was refused');
  }

  it('gives each upstream its own proxy, that of a variable, none, or that of the environment', () => {
    const env = { HTTPS_PROXY: 'http://all.example:3128', OWN_PROXY: 'http://us:er@own.example:3128' };
    const named = (name: string, more: object) => ({ ...openai, ...more, name });
    const list = [
      named('own', { proxy: { env: 'OWN_PROXY' } }),
      named('written', { proxy: 'http://b.example' }),
      named('none', { proxy: false }),
      openai,
    ];
    expect(read(list, env).upstreams?.map(({ proxy }) => proxy)).to.deep.equal([
      ...[env.OWN_PROXY, 'http://b.example', false, env.HTTPS_PROXY],
    ]);
    const refused = refusal([named('own', { proxy: 'socks5://us:canary@b.example' })]);
    expect(refused).to.include('FILE[0].proxy must be an http or https URL').and.not.include('canary');
  });

  it('lists upstreams, with keys and headers of the file or of variables', () => {
    const { upstreams, warnings } = read(
      [
        { ...openai, apiKey: { env: 'OPENAI_API_KEY' } },
        { ...azure, headers: { 'api-key': { env: 'AZURE_KEY' }, 'x-team': 'a' } },
      ],
      { OPENAI_API_KEY: 'sk-1', AZURE_KEY: 'az-1' },
    );
    expect(upstreams).to.deep.equal([
      { ...openai, apiKey: 'sk-1' },
      { ...azure, headers: { 'api-key': 'az-1', 'x-team': 'a' } },
    ]);
    expect(warnings).to.deep.equal([]);
  });

  it('warns of an upstream without a path', () => {
    expect(read([{ ...openai, baseUrl: 'https://api.openai.com' }]).warnings).to.deep.equal([
      "https://api.openai.com of the upstream 'openai' has no path; the APIs of most providers are under /v1",
    ]);
  });

  const wrong: [content: unknown, message: string | RegExp][] = [
    ['[{"name": "canary', 'FILE is not JSON'],
    [openai, 'FILE must be a list of upstreams'],
    [[], 'FILE must have an upstream'],
    [['openai'], 'FILE[0] must be an object'],
    [[openai, { ...azure, url: 'x' }], /^FILE\[1\]\.url is not an option; there are name, baseUrl, apiKey/],
    [[{ ...openai, baseUrl: 'api.openai.com' }], /^FILE\[0\]\.baseUrl must be an http or https URL/],
    [[{ ...openai, name: undefined }], /^FILE\[0\]\.name must be/],
    [[openai, openai], "FILE[1].name 'openai' is used twice"],
    [[{ ...openai, timeouts: { total: 'long' } }], /^FILE\[0\]\.timeouts\.total must be a number/],
    [[{ ...openai, apiKey: 7 }], /^FILE\[0\]\.apiKey must be text in printable ASCII, or an object such as/],
    [[{ ...openai, apiKey: { env: 'NOT_SET' } }], 'FILE[0].apiKey names the variable NOT_SET, which is not set'],
    [[{ ...openai, headers: { 'api-key': { env: 'NO' } } }], /^FILE\[0\]\.headers\.api-key names the variable NO/],
    [[{ ...openai, headers: 'x' }], 'FILE[0].headers must be an object'],
  ];
  for (const [content, message] of wrong) {
    it(`is refused by file and field: ${JSON.stringify(content).slice(0, 90)}`, () => {
      const said = refusal(content);
      expect(said).to.not.include('canary');
      const [, text = ''] = said.split(/^UPSTREAMS_FILE: /);
      if (typeof message === 'string') expect(text).to.equal(message);
      else expect(text).to.match(message);
    });
  }

  it('is refused when the file is missing, or together with UPSTREAM_BASE_URL', () => {
    expect(() => readConfiguration({ UPSTREAMS_FILE: '/none.json' })).to.throw('/none.json cannot be read (ENOENT)');
    expect(refusal([openai], { UPSTREAM_BASE_URL: openai.baseUrl })).to.equal(
      'UPSTREAMS_FILE: is set together with UPSTREAM_BASE_URL; put that upstream into the file',
    );
  });
});
