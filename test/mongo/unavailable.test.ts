import { createRequire } from 'node:module';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { mongo } from 'mongoose';
import { isUnavailable } from '../../src/mongo/unavailable.ts';

interface ErrorClass {
  readonly name: string;
  readonly prototype: object;
}

/** An error of one of the driver's classes: some are made by the driver's own parts alone. */
function errorOf(errorClass: ErrorClass): unknown {
  return Object.create(errorClass.prototype);
}

/** The driver does not export all of its classes. */
const poolErrors = createRequire(import.meta.url)('mongodb/lib/cmap/errors.js') as Record<string, ErrorClass>;

describe('An error of the driver', () => {
  it('means that the database is unavailable when it is a network error of any class', () => {
    const { MongoNetworkError, MongoNetworkTimeoutError } = mongo;
    const cleared = Object.values(poolErrors).filter(({ prototype }) => prototype instanceof MongoNetworkError);
    expect(cleared).to.have.length(2);
    for (const one of [MongoNetworkError, MongoNetworkTimeoutError, ...cleared]) {
      expect(isUnavailable(errorOf(one)), one.name).to.equal(true);
    }
  });

  it('means that when Node says that the socket is closed, in an error of another realm as in Jest', () => {
    const foreign = runInNewContext("Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })");
    expect(foreign).to.not.be.instanceOf(Error);
    expect(isUnavailable(foreign)).to.equal(true);
  });

  it('does not mean that when it is a parse error, an invalid argument or an error of the server', () => {
    for (const one of [mongo.MongoParseError, mongo.MongoInvalidArgumentError, mongo.MongoServerError]) {
      expect(isUnavailable(errorOf(one)), one.name).to.equal(false);
    }
  });
});
