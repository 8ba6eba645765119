import fc from 'fast-check';
import { GatewayError } from '../../src/index.ts';

const fail = (): never => {
  throw new Error('reading this throws');
};

/** An object of which nothing can be read. */
export function untouchable(): object {
  const traps = ['get', 'has', 'getPrototypeOf', 'ownKeys', 'getOwnPropertyDescriptor'] as const;
  return new Proxy({}, Object.fromEntries(traps.map((trap) => [trap, fail])));
}

class ErrorWithGetters extends Error {
  constructor() {
    super();
    for (const name of ['name', 'message', 'stack', 'cause', 'code', 'status', 'headers', 'param']) {
      Object.defineProperty(this, name, { get: fail });
    }
  }
}

function circular(): Error {
  const error = new Error('one');
  error.cause = new Error('two', { cause: error });
  return error;
}

/** fast-check reads what it generates: values that do not let themselves be read are made at the last moment. */
const odd = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    5,
    '',
    'a\r\nset-cookie: x=1',
    '\u20ac',
    '\0',
    [],
    ['a', 'b'],
    {},
    Symbol('s'),
  ),
  fc.string({ unit: 'binary' }),
  fc.constant(untouchable),
);
const made = (value: unknown): unknown => (value === untouchable ? untouchable() : value);

const headerName = fc.oneof(
  fc.constantFrom('retry-after', 'transfer-encoding', 'content-length', 'Content-Type', 'trailer', 'a b', '', 'x\r\ny'),
  fc.string(),
);
const code = fc.oneof(fc.constantFrom<unknown>('rate_limit_exceeded', 'not_a_code', 'toString', '__proto__'), odd);
const headers = fc.oneof(fc.array(fc.tuple(headerName, odd)), fc.constantFrom<unknown>(null, 5, 'x', untouchable));

function oddHeaders(given: unknown): unknown {
  return Array.isArray(given) ? Object.fromEntries(given.map(([name, value]) => [name, made(value)])) : made(given);
}

/** A GatewayError with anything in it, of this copy of the package or of another, as a host without types may throw it. */
const oddGatewayError = fc
  .record({ code, message: odd, param: odd, headers, frozen: fc.boolean(), foreign: fc.boolean() })
  .map(({ frozen, foreign, ...given }) => () => {
    const fields = { param: made(given.param), headers: oddHeaders(given.headers) };
    const error = foreign
      ? Object.assign(new Error(), { name: 'GatewayError', ...fields, code: made(given.code), status: 9_999 })
      : Object.assign(new GatewayError(made(given.code) as never, 'odd', fields as never), { status: 9_999 });
    Object.defineProperty(error, 'message', { value: made(given.message) });
    return frozen ? Object.freeze(error) : error;
  });

/** Anything that JavaScript lets a function throw, made when it is called. */
export const anyThrown: fc.Arbitrary<() => unknown> = fc.oneof(
  { arbitrary: oddGatewayError, weight: 3 },
  { arbitrary: odd.map((value) => () => made(value)), weight: 2 },
  fc.constantFrom<() => unknown>(
    () => Object.freeze(new Error('frozen')),
    () => new ErrorWithGetters(),
    () => ({ toString: fail }),
    () => Object.create(null),
    // biome-ignore lint/suspicious/noThenProperty: that is what is odd about it
    () => ({ then: fail }),
    () => Promise.reject(new Error('a promise that nobody waits for')),
    circular,
    () => Object.assign(new Error('of a client'), { status: 700, code: 'ECONNRESET' }),
    () => new AggregateError([new Error('a')]),
    () => 10n,
    () => fail,
  ),
);
