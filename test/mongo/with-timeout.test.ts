import { expect } from 'chai';
import { withTimeout } from '../../src/mongo/periodic.ts';

describe('An answer of the database', () => {
  it('is passed on, and so is an error', async () => {
    expect(await withTimeout(Promise.resolve(7))).to.equal(7);
    const refusal = new Error('refused');
    expect(await withTimeout(Promise.reject(refusal)).catch((error) => error)).to.equal(refusal);
  });

  it('is waited for no longer than the timeout', async () => {
    const error = await withTimeout(new Promise<never>(() => {}), 20).catch((reason) => reason);
    expect((error as Error).message).to.equal('the database has not answered within 0.02 s');
  });

  it('may be an error after the timeout, without an unhandled rejection', async () => {
    let refuse = (_: Error) => {};
    const late = new Promise<void>((_, reject) => {
      refuse = reject;
    });
    await withTimeout(late, 1).catch(() => {});
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.prependListener('unhandledRejection', note);
    refuse(new Error('too late'));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).to.deep.equal([]);
  });
});
