import { expect } from 'chai';
import { TimeoutError } from '../../../src/mongo/periodic.ts';
import { persist } from '../../../src/mongo/writes.ts';
import { silentLogger } from '../../support/logger.ts';

describe('The outcome of an attempt', () => {
  const waits = [1, 1, 1];

  function failing(error: Error, times: number) {
    let tries = 0;
    return async () => {
      tries += 1;
      if (tries <= times) throw error;
      return tries;
    };
  }
  const unavailable = new TimeoutError('no answer');

  it('is recorded after an outage that outlasts every wait, so that the attempt is not made again', async () => {
    expect(await persist(failing(unavailable, 20), { logger: silentLogger, waits })).to.equal(21);
  });

  it('is given up when it cannot be recorded for a reason other than an outage', async () => {
    const error = await persist(failing(new Error('a bug'), 20), { logger: silentLogger, waits }).catch(
      (reason) => reason,
    );
    expect(error).to.have.property('message', 'a bug');
  });

  it('gets as many retries for another error after an outage as without one', async () => {
    const outage = failing(unavailable, 20);
    const other = failing(new Error('interrupted'), 2);
    const logger = silentLogger;
    expect(await persist(() => outage().then(other), { logger, waits })).to.equal(3);
  });

  it('is given up when the gateway has closed', async () => {
    const closed = AbortSignal.timeout(50);
    const never = failing(unavailable, Number.POSITIVE_INFINITY);
    expect(await persist(never, { logger: silentLogger, waits, closed }).catch((reason) => reason)).to.equal(
      unavailable,
    );
  });
});
