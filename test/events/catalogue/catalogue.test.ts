import vm from 'node:vm';
import { expect } from 'chai';
import fc from 'fast-check';
import { addCustomEventTypes, catalogueOf } from '../../../src/events/catalogue.ts';
import { type EventTypeOptions, GatewayError } from '../../../src/index.ts';
import { resolveOptions } from '../../../src/options/resolve.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { loadSpec, spec } from '../../support/openapi.ts';
import { until } from '../../support/until.ts';

const catalogue = catalogueOf(loadSpec());

function refusal(type: string, data: unknown): GatewayError {
  try {
    catalogue.validate(type, data);
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error(`${type} took ${JSON.stringify(data)}`);
}

const fields: Readonly<Record<string, readonly string[]>> = {
  'usage.threshold': ['user_id', 'threshold', 'current_usage', 'period'],
  'credits.low': ['user_id', 'credits_remaining', 'threshold'],
  'credits.depleted': ['user_id', 'credits_remaining'],
  'payment.completed': ['payment_id', 'amount', 'currency', 'credits_added', 'user_id'],
  'payment.failed': ['payment_id', 'amount', 'currency', 'user_id', 'reason'],
  'api_key.created': ['api_key_id', 'name', 'user_id'],
  'api_key.revoked': ['api_key_id', 'name', 'user_id'],
  'rate_limit.exceeded': ['user_id', 'api_key_id', 'limit', 'rejected_requests', 'window_start', 'window_end'],
};

describe('the catalogue of events', () => {
  it("has the gateway's eight event types", () => {
    expect([...catalogue.types]).to.deep.equal(Object.keys(fields));
  });

  it('describes each type in words without Markdown, as the dashboard shows them', () => {
    const descriptions = catalogue.list().map(({ description }) => description);
    expect(descriptions[0]).to.match(/^Beta\. Usage of the period/);
    for (const description of descriptions) expect(description).to.not.include('**');
  });

  it('names the types that exist when one is unknown', () => {
    const error = refusal('payment.complete', {});
    expect(error).to.include({ code: 'unknown_event_type', status: 400, param: 'type' });
    for (const type of catalogue.types) expect(error.message).to.contain(type);
  });

  for (const type of ['', 'toString', '__proto__', 'PAYMENT.COMPLETED', 'payment.completed ']) {
    it(`does not know the type ${JSON.stringify(type)}`, () => {
      expect(refusal(type, {}).code).to.equal('unknown_event_type');
    });
  }

  it('does not know a type that is not a string', () => {
    const error = refusal(7 as unknown as string, {});
    expect(error).to.include({ code: 'unknown_event_type' });
    expect(error.message).to.match(/^type: '7' is not one of/);
  });

  it('has no example of an unknown type', () => {
    expect(() => catalogue.example('nothing'))
      .to.throw(GatewayError)
      .with.property('code', 'unknown_event_type');
  });

  it('gives a new example each time, so that changing one changes no other', () => {
    const example = catalogue.example('payment.completed');
    example.amount = 'changed';
    expect(catalogue.example('payment.completed').amount).to.equal(25);
  });

  for (const [type, names] of Object.entries(fields)) {
    describe(type, () => {
      it('accepts its own example', () => {
        expect(() => catalogue.validate(type, catalogue.example(type))).to.not.throw();
      });

      it(`has exactly the fields ${names.join(', ')}`, () => {
        expect(Object.keys(catalogue.example(type))).to.have.members([...names]);
      });

      it('refuses a field it does not have, and names those it has', () => {
        const error = refusal(type, { ...catalogue.example(type), usage: 1 });
        expect(error).to.include({ code: 'invalid_event_data', param: 'data.usage' });
        expect(error.message).to.equal(
          `data.usage: is not a field; data has ${Object.keys(catalogue.example(type)).join(', ')}`,
        );
      });

      for (const name of names) {
        it(`refuses data without ${name}`, () => {
          const { [name]: _, ...rest } = catalogue.example(type);
          const error = refusal(type, rest);
          expect(error).to.include({ code: 'invalid_event_data', status: 400, param: `data.${name}` });
          expect(error.message).to.match(new RegExp(`^data\\.${name}: is missing; data needs `));
        });

        it(`refuses null as ${name}`, () => {
          const error = refusal(type, { ...catalogue.example(type), [name]: null });
          expect(error).to.include({ code: 'invalid_event_data', param: `data.${name}` });
          expect(error.message).to.match(/, not null$/);
        });
      }
    });
  }

  const wrong: readonly [type: string, change: Record<string, unknown>, message: string][] = [
    ['payment.completed', { amount: -3 }, 'data.amount: must be 0 or more, not -3'],
    ['payment.completed', { amount: '25' }, 'data.amount: must be a number, not "25"'],
    ['payment.completed', { amount: true }, 'data.amount: must be a number, not true'],
    ['payment.completed', { amount: [25] }, 'data.amount: must be a number, not an array'],
    ['payment.completed', { amount: { usd: 25 } }, 'data.amount: must be a number, not an object'],
    ['payment.completed', { credits_added: '1' }, 'data.credits_added: must be a number, not "1"'],
    ['payment.completed', { payment_id: '' }, 'data.payment_id: must not be empty, not ""'],
    ['payment.completed', { payment_id: 5 }, 'data.payment_id: must be a string, not 5'],
    ['payment.completed', { currency: 'USD' }, 'data.currency: must match ^[a-z]{3}$, not "USD"'],
    ['payment.completed', { currency: 'us' }, 'data.currency: must match ^[a-z]{3}$, not "us"'],
    ['payment.completed', { currency: 'usd\n' }, 'data.currency: must match ^[a-z]{3}$, not "usd\\n"'],
    ['payment.completed', { user_id: '' }, 'data.user_id: must not be empty, not ""'],
    ['payment.failed', { reason: '' }, 'data.reason: must not be empty, not ""'],
    ['usage.threshold', { period: 'weekly' }, 'data.period: must be one of "daily", "monthly", not "weekly"'],
    ['usage.threshold', { threshold: -1 }, 'data.threshold: must be 0 or more, not -1'],
    ['usage.threshold', { current_usage: '81%' }, 'data.current_usage: must be a number, not "81%"'],
    ['credits.depleted', { credits_remaining: 3 }, 'data.credits_remaining: must be 0, not 3'],
    ['api_key.created', { api_key_id: '' }, 'data.api_key_id: must not be empty, not ""'],
    ['rate_limit.exceeded', { limit: 1.5 }, 'data.limit: must be an integer, not 1.5'],
    ['rate_limit.exceeded', { rejected_requests: 0 }, 'data.rejected_requests: must be 1 or more, not 0'],
    [
      'rate_limit.exceeded',
      { window_end: '2026-02-30T00:00:00Z' },
      'data.window_end: must be a date-time such as 2026-01-01T00:00:00.000Z, not "2026-02-30T00:00:00Z"',
    ],
  ];
  for (const [type, change, message] of wrong) {
    it(`says what ${type} expects instead of ${JSON.stringify(change)}`, () => {
      const error = refusal(type, { ...catalogue.example(type), ...change });
      expect(error.message).to.equal(message);
      expect(error).to.include({ code: 'invalid_event_data', param: message.slice(0, message.indexOf(':')) });
    });
  }

  for (const moment of ['2026-01-01', '2026-01-01T00:00:00+01:00', '2026-01-01 00:00:00Z', 'yesterday']) {
    it(`refuses ${moment} as a moment in UTC`, () => {
      const error = refusal('rate_limit.exceeded', {
        ...catalogue.example('rate_limit.exceeded'),
        window_start: moment,
      });
      expect(error.param).to.equal('data.window_start');
    });
  }

  const allowed: readonly [type: string, change: Record<string, unknown>][] = [
    ['payment.completed', { amount: 0.1 }],
    ['payment.completed', { amount: 0 }],
    ['payment.completed', { payment_id: 'pay_Ü😀' }],
    ['usage.threshold', { period: 'daily', current_usage: 130.25 }],
    ['credits.low', { credits_remaining: -2 }],
    ['credits.depleted', { credits_remaining: 0 }],
    ['api_key.revoked', { name: '' }],
    ['rate_limit.exceeded', { window_start: '2026-01-01T00:00:00Z' }],
  ];
  for (const [type, change] of allowed) {
    it(`accepts ${JSON.stringify(change)} in ${type}`, () => {
      expect(() => catalogue.validate(type, { ...catalogue.example(type), ...change })).to.not.throw();
    });
  }

  for (const [data, found] of [
    [null, 'null'],
    [[], 'an array'],
    ['{}', '"{}"'],
    [5, '5'],
    [true, 'true'],
  ] as const) {
    it(`refuses ${found} as data`, () => {
      const error = refusal('credits.low', data);
      expect(error).to.include({ code: 'invalid_event_data', param: 'data' });
      expect(error.message).to.equal(`data: must be an object, not ${found}`);
    });
  }

  it('shortens a long value in the error message', () => {
    const error = refusal('payment.completed', {
      ...catalogue.example('payment.completed'),
      currency: 'x'.repeat(9999),
    });
    expect(error.message.length).to.be.below(120);
  });

  it('checks for values that JSON cannot carry before it checks the schema', () => {
    const error = refusal('payment.completed', { ...catalogue.example('payment.completed'), amount: 25n });
    expect(error).to.include({ code: 'invalid_event_data', param: 'data.amount' });
    expect(error.message).to.contain('send it as a string');
  });

  it('does not change the data that it checks', () => {
    const data = Object.freeze(catalogue.example('payment.completed'));
    catalogue.validate('payment.completed', data);
    expect(data).to.deep.equal(catalogue.example('payment.completed'));
  });

  it('cannot be created from an OpenAPI document with an event whose data has no schema', () => {
    const spec = loadSpec();
    const webhooks = { 'made.up': { post: { operationId: 'onMadeUp', responses: {} } } };
    expect(() => catalogueOf({ ...spec, webhooks })).to.throw('the event made.up needs a schema of data');
  });
});

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i += 1) value = i % 2 ? [value] : { in: value };
  return value;
}

class Money {
  readonly amount = 25;
}

const loop: Record<string, unknown> = { list: [] };
(loop.list as unknown[]).push(loop);

// biome-ignore lint/suspicious/noSparseArray: a hole is what is tested
const holed = [1, , 3];

const refused: readonly [what: string, value: unknown, path: string, problem: string][] = [
  ['undefined', undefined, 'data', 'is undefined'],
  ['an undefined field', { a: undefined }, 'data.a', 'is undefined'],
  ['undefined in a list', { a: [1, undefined] }, 'data.a[1]', 'is undefined'],
  ['a hole in a list', { a: holed }, 'data.a[1]', 'is undefined'],
  ['a function', { a: { b: () => 1 } }, 'data.a.b', 'is a function'],
  ['a toJSON method', { toJSON: () => 1 }, 'data.toJSON', 'is a function'],
  ['a symbol', { a: Symbol('x') }, 'data.a', 'is a symbol'],
  ['a symbol as a key', { a: { [Symbol('x')]: 1 } }, 'data.a', 'has a symbol as a key'],
  ['a BigInt', { a: 1n }, 'data.a', 'is a bigint, which cannot be sent as JSON: send it as a string'],
  ['NaN', { a: Number.NaN }, 'data.a', 'is NaN'],
  ['Infinity', [Number.POSITIVE_INFINITY], 'data[0]', 'is Infinity'],
  ['-Infinity', { a: Number.NEGATIVE_INFINITY }, 'data.a', 'is -Infinity'],
  ['a Date', { a: new Date(0) }, 'data.a', 'is a Date; pass a string such as date.toISOString()'],
  ['a Map', { a: new Map() }, 'data.a', 'is an instance of Map'],
  ['a Set', { a: new Set() }, 'data.a', 'is an instance of Set'],
  ['a Buffer', { a: Buffer.from('x') }, 'data.a', 'is an instance of Buffer'],
  ['a boxed number', { a: Object(5) }, 'data.a', 'is an instance of Number'],
  ['an Error', { a: new Error('x') }, 'data.a', 'is an instance of Error'],
  ["an instance of a host's class", { a: new Money() }, 'data.a', 'is an instance of Money'],
  ['a nameless class', { a: new (class {})() }, 'data.a', 'is an instance of a class'],
  ['an object with something inherited', { a: Object.create({ b: 1 }) }, 'data.a', 'is an instance of Object'],
  ['a cycle', loop, 'data.list[0]', 'contains itself'],
  ['a high surrogate alone', { a: 'x\ud83d' }, 'data.a', 'has half of a surrogate pair'],
  ['a low surrogate alone', { a: '\ude00x' }, 'data.a', 'has half of a surrogate pair'],
  ['half a pair in a name', { '\ud83d': 1 }, 'data["\\ud83d"]', 'has half of a surrogate pair in its name'],
  ['a NUL in a name', { 'a\0b': 1 }, 'data["a\\u0000b"]', 'has a NUL character in its name'],
];

describe('the check for values that JSON cannot carry unchanged', () => {
  const { validate } = catalogueOf(addCustomEventTypes(loadSpec(), { 'host.anything': { schema: {}, example: {} } }));

  /** Why a type that takes anything refuses a value; `undefined` where it takes it. */
  function problemOf(data: unknown) {
    try {
      validate('host.anything', data);
      return undefined;
    } catch (error) {
      const { code, param, message } = error as GatewayError;
      expect(code).to.equal('invalid_event_data');
      const path = String(param);
      expect(message.startsWith(`${path}: `)).to.equal(true);
      return { path, problem: message.slice(path.length + 2) };
    }
  }

  for (const [what, value, path, problem] of refused) {
    it(`finds ${what}`, () => {
      const found = problemOf(value);
      expect(found?.path).to.equal(path);
      expect(found?.problem).to.contain(problem);
    });
  }

  it('writes a field name that is not an identifier in brackets', () => {
    expect(problemOf({ 'a b': { '0': undefined } })?.path).to.equal('data["a b"]["0"]');
  });

  it('reports the first of several problems', () => {
    expect(problemOf({ fine: 1, first: 1n, second: Number.NaN })?.path).to.equal('data.first');
  });

  it('accepts 100 levels of nesting and refuses 101', () => {
    expect(problemOf(nested(100))).to.equal(undefined);
    expect(problemOf(nested(101))?.problem).to.equal('is nested more than 100 levels deep');
  });

  it('refuses 100,000 levels of nesting without a stack overflow', () => {
    expect(problemOf(nested(100_000))?.problem).to.contain('nested');
  });

  it('accepts the same object in two places, which is not a cycle', () => {
    const shared = { a: 1 };
    expect(problemOf({ one: shared, two: [shared, shared] })).to.equal(undefined);
  });

  it('accepts an object without a prototype and one from another realm', () => {
    const bare = Object.assign(Object.create(null), { a: 1 });
    expect(problemOf({ bare, foreign: vm.runInNewContext('({ list: [1, { a: null }] })') })).to.equal(undefined);
    expect(problemOf(vm.runInNewContext('new Date()'))?.problem).to.contain('is a Date');
  });

  it('accepts a string with NUL, emoji and escaped characters', () => {
    expect(problemOf({ text: 'a\0😀\u2028"\\' })).to.equal(undefined);
  });

  it('accepts every value that JSON can hold', () => {
    fc.assert(fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => !problemOf(value)));
  });

  it('accepts no value that JSON would change', () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withSparseArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        if (problemOf(value)) return;
        expect(JSON.parse(JSON.stringify(value))).to.deep.equal(withoutMinusZero(value));
      }),
    );
  });
});

/** -0 is the one number that JSON writes as another, which equals it. */
function withoutMinusZero(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutMinusZero);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withoutMinusZero(item)]));
  }
  return value === 0 ? 0 : value;
}

const shipped: EventTypeOptions = {
  description: 'A parcel is on its way.',
  schema: {
    type: 'object',
    additionalProperties: false,
    required: ['order_id', 'weight'],
    properties: { order_id: { type: 'string' }, weight: { $ref: '#/$defs/grams' } },
    $defs: { grams: { type: 'integer', minimum: 1 } },
  },
  example: { order_id: 'ord_1', weight: 250 },
};

describe("a host's own event types", () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway({ eventTypes: { 'order.shipped': shipped } });
  });
  after(() => live.close());

  it('can be subscribed to, published and delivered', async () => {
    const bodies: string[] = [];
    const receiver = await listen(async (req, res) => {
      for await (const chunk of req) bodies.push(String(chunk));
      res.end();
    });
    const webhook = { url: receiver.url, events: ['order.shipped'], secret: 'long-enough' };
    expect((await live.call('POST', '/v1/webhooks', webhook)).status).to.equal(201);
    const data = { order_id: 'ord_2', weight: 9 };
    await live.gateway.publish({ type: 'order.shipped', userId: 'usr_1', data });
    await until(() => bodies.length > 0);
    expect(JSON.parse(bodies.join(''))).to.deep.include({ type: 'order.shipped', data });
    await receiver.close();
  });

  it('are validated with their schema when they are published', async () => {
    const body = { type: 'order.shipped', user_id: 'usr_1', data: { order_id: 'ord_2', weight: 0 } };
    const { status, body: answer } = await live.call('POST', '/v1/events', body);
    expect([status, answer.error.code, answer.error.param]).to.deep.equal([400, 'invalid_event_data', 'data.weight']);
  });

  it("are listed after the gateway's own event types", async () => {
    const { data } = (await live.call('GET', '/v1/event_types')).body;
    expect(data).to.have.length(9);
    const { description, schema, example } = shipped;
    expect(data[8]).to.deep.equal({ type: 'order.shipped', description, schema, example });
  });

  it('are unknown to a gateway that was not given them', async () => {
    const other = await startGateway();
    const webhook = { url: 'https://example.com/', events: ['order.shipped'], secret: 'long-enough' };
    const { body } = await other.call('POST', '/v1/webhooks', webhook);
    expect(body.error).to.include({ code: 'invalid_value', param: 'events[0]' });
    await other.close();
  });

  const refused: [param: string, types: unknown, says: RegExp][] = [
    ['eventTypes', ['order.shipped'], /must be an object/],
    ["eventTypes['Order']", { Order: shipped }, /lower-case words/],
    ["eventTypes['a.b']", { 'a.b': null }, /schema and example/],
    ["eventTypes['a.b'].schema", { 'a.b': { ...shipped, schema: { type: 'string' } } }, /type: 'object'/],
    ["eventTypes['a.b'].example", { 'a.b': { ...shipped, example: 1 } }, /must be an object/],
    ["eventTypes['a.b'].examples", { 'a.b': { ...shipped, examples: [] } }, /is not an option/],
  ];
  for (const [param, eventTypes, says] of refused) {
    it(`are refused with invalid options: ${JSON.stringify(eventTypes)}`, () => {
      const options = { mongo: 'mongodb://x', secretKeys: [newSecretKey()], eventTypes: eventTypes as never };
      expect(() => resolveOptions(options))
        .to.throw(says)
        .with.property('param', param);
    });
  }

  const unsound: [param: string, types: Record<string, EventTypeOptions>, says: RegExp][] = [
    ["eventTypes['credits.low']", { 'credits.low': shipped }, /is already an event type of the gateway/],
    ["eventTypes['a.b'].schema", { 'a.b': { ...shipped, schema: { type: 'object', requird: [] } } }, /requird/],
    ["eventTypes['a.b'].schema", { 'a.b': { ...shipped, schema: { type: 'object', $ref: '#/nowhere' } } }, /nowhere/],
    ["eventTypes['a.b'].example", { 'a.b': { ...shipped, example: { order_id: 1, weight: 1 } } }, /data\.order_id/],
  ];
  for (const [param, types, says] of unsound) {
    it(`are refused when the gateway is created: ${param}, ${says.source}`, () => {
      expect(() => addCustomEventTypes(spec, types))
        .to.throw(says)
        .with.property('param', param);
    });
  }

  it('do not change the OpenAPI document that they are added to', () => {
    const spec = loadSpec();
    const before = JSON.stringify(spec);
    addCustomEventTypes(spec, { 'order.shipped': shipped });
    expect(JSON.stringify(spec)).to.equal(before);
  });
});
