import { expect } from 'chai';
import { readConfiguration } from '../../../src/cli/config/config.ts';
import type { Environment } from '../../../src/cli/config/environment.ts';
import { describeStart } from '../../../src/cli/server/next-steps.ts';

const running = {
  baseUrl: 'http://127.0.0.1:3000/v1',
  dashboardUrl: 'http://127.0.0.1:3000/dashboard/',
  data: '.data',
  demo: true,
  close: async () => {},
};

function printed(env: Environment): string {
  return describeStart(running, readConfiguration(env), 'emg').join('\n');
}

describe('What the start prints', () => {
  const rules: [Environment, string][] = [
    [{}, 'plain http, 127.0.0.0/8, ::1/128 (HOST is loopback, NODE_ENV is not production;'],
    [{ HOST: '0.0.0.0' }, 'https only, public addresses only (HOST 0.0.0.0 is not loopback;'],
    [{ NODE_ENV: 'production' }, 'https only, public addresses only (NODE_ENV is production;'],
    [
      { HOST: '0.0.0.0', ALLOW_PRIVATE_NETWORKS: '10.0.0.0/8' },
      'https only, 10.0.0.0/8 (ALLOW_PRIVATE_NETWORKS is set, HOST 0.0.0.0 is not loopback;',
    ],
    [
      { NODE_ENV: 'production', WEBHOOK_PROXY: 'http://us:er@proxy:4750' },
      'https only, the addresses that WEBHOOK_PROXY lets through (NODE_ENV is production;',
    ],
  ];
  for (const [env, line] of rules) {
    it(`says what webhooks may use with ${JSON.stringify(env)}, and why`, () => {
      expect(printed(env)).to.include(`\nWebhooks may use: ${line} see ALLOW_HTTP, ALLOW_PRIVATE_NETWORKS)\n`);
    });
  }

  it('says which base URL OpenAI clients take, and which the commands take, whatever webhooks may reach', () => {
    for (const env of [{}, { HOST: '0.0.0.0' }]) {
      const lines = printed(env).split('\n');
      expect(lines).to.include('Base URL: http://127.0.0.1:3000/v1');
      const exported = lines.filter((line) => line.startsWith('  export '));
      expect(exported).to.deep.equal([
        '  export OPENAI_BASE_URL=http://127.0.0.1:3000/v1 OPENAI_API_KEY=<your API key>',
        '  export EXPRESS_MODEL_GATEWAY_BASE_URL=http://127.0.0.1:3000 EXPRESS_MODEL_GATEWAY_API_KEY=<your API key>',
      ]);
    }
  });

  it('suggests a receiver on this machine only where webhooks may reach one', () => {
    expect(printed({})).to.include('http://127.0.0.1:9000');
    expect(printed({ HOST: '0.0.0.0' })).not.to.include('http://127.0.0.1:9000');
    expect(printed({ HOST: '0.0.0.0', ALLOW_HTTP: 'true', ALLOW_PRIVATE_NETWORKS: '127.0.0.0/8' })).to.include(
      'http://127.0.0.1:9000',
    );
  });
});
