import { expect } from 'chai';
import { createModelGateway, GatewayError, type ModelGatewayOptions } from '../../src/index.ts';
import { webhookReceiver } from '../../src/receiver/index.ts';

type Group = Readonly<Record<string, unknown>>;
type GroupName =
  | 'modelCalls'
  | 'background'
  | 'sockets'
  | 'deliveries'
  | 'limits'
  | 'quotas'
  | 'credits'
  | 'dashboard'
  | 'tracing';

/** The paths of the options of a type that are yes or no, those in its groups and lists too: `limits.shared`, `upstreams[0].maskErrors`. */
type FlagsOf<Options> = {
  [Name in keyof Options & string]-?: NonNullable<Options[Name]> extends boolean
    ? Name
    : NonNullable<Options[Name]> extends readonly (infer Item extends object)[]
      ? `${Name}[0].${FlagsOf<Item>}`
      : Name extends GroupName
        ? `${Name}.${FlagsOf<NonNullable<Options[Name]>>}`
        : never;
}[keyof Options & string];

/** Each yes-or-no option with the least that goes with it. The compiler holds the table to the options: none is missing. */
const flags: Readonly<Record<FlagsOf<ModelGatewayOptions>, (value: unknown) => Group>> = {
  allowStandalone: (allowStandalone) => ({ allowStandalone }),
  'modelCalls.exposeUpstream': (exposeUpstream) => ({ modelCalls: { exposeUpstream } }),
  'modelCalls.abortOnDisconnect': (abortOnDisconnect) => ({ modelCalls: { abortOnDisconnect } }),
  usage: (usage) => ({ usage }),
  serveOpenApi: (serveOpenApi) => ({ serveOpenApi }),
  logRequests: (logRequests) => ({ logRequests }),
  allowHttp: (allowHttp) => ({ allowHttp }),
  'deliveries.disableOnGone': (disableOnGone) => ({ deliveries: { disableOnGone } }),
  'deliveries.honorRetryAfter': (honorRetryAfter) => ({ deliveries: { honorRetryAfter } }),
  'deliveries.changeStreams': (changeStreams) => ({ deliveries: { changeStreams } }),
  'limits.shared': (shared) => ({ limits: { shared } }),
  'quotas.enforce': (enforce) => ({ quotas: { perUser: { unit: 'tokens' }, enforce } }),
  'tracing.propagateToUpstreams': (propagateToUpstreams) => ({ tracing: { propagateToUpstreams } }),
  'tracing.propagateToReceivers': (propagateToReceivers) => ({ tracing: { propagateToReceivers } }),
  'upstreams[0].includeUsage': (includeUsage) => ({ upstreams: [{ name: 'a', baseUrl: 'http://a', includeUsage }] }),
  'upstreams[0].maskErrors': (maskErrors) => ({ upstreams: [{ name: 'a', baseUrl: 'http://a', maskErrors }] }),
};

const neither = ['false', 'true', 'no', '', 0, 1, null, {}, []];

/** The option that is refused. What is checked last is wrong, so that no gateway starts when the value is taken. */
async function refused(options: Group): Promise<unknown> {
  const limits = { bodyMemory: 1, ...(options.limits as object | undefined) };
  const given = { mongo: 'mongodb://127.0.0.1:1/x', secretKeys: ['k1:x'], ...options, limits };
  try {
    return await createModelGateway(given as unknown as ModelGatewayOptions);
  } catch (error) {
    return error instanceof GatewayError ? { param: error.param, message: error.message } : error;
  }
}

describe('a yes-or-no option', () => {
  for (const [param, give] of Object.entries(flags)) {
    it(`takes true and false alone: ${param}`, async () => {
      for (const value of neither) {
        const message = `${param}: must be true or false`;
        expect(await refused(give(value)), JSON.stringify(value)).to.deep.equal({ param, message });
      }
      for (const value of [true, false]) {
        expect(await refused(give(value))).to.have.property('param', 'limits.bodyMemory');
      }
    });
  }

  it('takes true and false alone: requireTimestamp of a receiver', () => {
    for (const value of neither) {
      const options = { secret: 'whsec_1234567890', onEvent: () => {}, requireTimestamp: value as boolean };
      expect(() => webhookReceiver(options), JSON.stringify(value)).to.throw(
        TypeError,
        'requireTimestamp must be true or false',
      );
    }
  });
});
