import { expect } from 'chai';
import { GatewayError } from '../../src/index.ts';
import { checkUpstreams, type UpstreamOptions } from '../../src/options/upstreams.ts';

const good: UpstreamOptions = { name: 'one', baseUrl: 'https://api.example/v1' };

function refusal(upstream: Record<string, unknown>): string {
  try {
    checkUpstreams([{ ...good, ...upstream } as UpstreamOptions]);
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'invalid_options') return error.param ?? '';
    throw error;
  }
  return 'accepted';
}

describe('the options of an upstream', () => {
  it('are accepted when their values are valid', () => {
    const upstream: Required<UpstreamOptions> = {
      ...good,
      apiKey: 'sk',
      models: ['gpt-*', 'vendor/m'],
      aliases: { fast: 'vendor/m' },
      weight: 0.5,
      priority: -1,
      headers: { 'X-Org': 'ours', authorization: 'Basic x' },
      forwardHeaders: ['traceparent'],
      timeouts: { connect: 1, firstByte: 2, betweenChunks: 3, total: 4 },
      includeUsage: false,
      maxConcurrency: 1,
      maskErrors: true,
      proxy: 'http://user:pass@proxy.example.com:3128',
    };
    expect(refusal(upstream)).to.equal('accepted');
  });

  const refused: [string, Record<string, unknown>][] = [
    ['upstreams[0].name', { name: 'with space' }],
    ['upstreams[0].name', { name: undefined }],
    ['upstreams[0].baseUrl', { baseUrl: 'https://api.example/v1#key=1' }],
    ['upstreams[0].baseUrl', { baseUrl: 'https://' }],
    ['upstreams[0].model', { model: 'm' }],
    ['upstreams[0].models', { models: 'gpt-*' }],
    ['upstreams[0].maxConcurrency', { maxConcurrency: 0 }],
    ['upstreams[0].maxConcurrency', { maxConcurrency: 1.5 }],
    ['upstreams[0].maxConcurrency', { maxConcurrency: '10' }],
    ['upstreams[0].models', { models: [''] }],
    ['upstreams[0].aliases', { aliases: ['a'] }],
    ['upstreams[0].aliases.fast', { aliases: { fast: 1 } }],
    ['upstreams[0].weight', { weight: -1 }],
    ['upstreams[0].weight', { weight: Number.NaN }],
    ['upstreams[0].priority', { priority: 'high' }],
    ['upstreams[0].headers.bad name', { headers: { 'bad name': 'x' } }],
    ['upstreams[0].headers.Host', { headers: { Host: 'x' } }],
    ['upstreams[0].headers.content-length', { headers: { 'content-length': '1' } }],
    ['upstreams[0].forwardHeaders.Authorization', { forwardHeaders: ['Authorization'] }],
    ['upstreams[0].forwardHeaders.cookie', { forwardHeaders: ['cookie'] }],
    ['upstreams[0].timeouts.read', { timeouts: { read: 1 } }],
    ['upstreams[0].timeouts.total', { timeouts: { total: 0 } }],
    ['upstreams[0].includeUsage', { includeUsage: 'no' }],
  ];
  for (const [param, options] of refused) {
    it(`are refused with an error that names ${param}: ${JSON.stringify(options)}`, () => {
      expect(refusal(options)).to.equal(param);
    });
  }

  it('are refused by name where an upstream is no object', () => {
    for (const given of [null, 'https://api.example/v1']) {
      expect(() => checkUpstreams([given as unknown as UpstreamOptions]))
        .to.throw(GatewayError, 'upstreams[0]: must be an object')
        .with.property('code', 'invalid_options');
    }
  });
});
