import { expect } from 'chai';
import { CreditAllowance } from '../../../src/accounting/credit-allowance.ts';

/** One that was leased with a balance of so much, all of it set aside here. */
function leasedFrom(balance: number): CreditAllowance {
  const allowance = new CreditAllowance();
  allowance.applyLease({ amount: balance, balance }, []);
  return allowance;
}

describe('the credit allowance of a process', () => {
  it('is zero before its first lease', () => {
    const allowance = new CreditAllowance();
    expect([allowance.reserve(1), allowance.isEmpty, allowance.reserved]).to.deep.equal([false, true, 0]);
  });

  it('refuses a reservation once all of it is reserved; only the last one may exceed it', () => {
    const allowance = leasedFrom(10);
    expect([allowance.reserve(6), allowance.reserve(6), allowance.reserve(6)]).to.deep.equal([true, true, false]);
    expect(allowance.reserved).to.equal(12);
  });

  it('is freed when a call ends without cost', () => {
    const allowance = leasedFrom(5);
    expect(allowance.reserve(5)).to.equal(true);
    expect(allowance.reserve(5)).to.equal(false);
    allowance.release(5);
    expect(allowance.reserve(5)).to.equal(true);
  });

  it('stays reserved after a call until its cost is booked', () => {
    const allowance = leasedFrom(10);
    allowance.reserve(4);
    allowance.spend(4, 'use_1', 10);
    expect(allowance.reserve(1)).to.equal(false);
    expect(allowance.unbooked).to.deep.equal(['use_1']);
    expect(allowance.unbookedCost(['use_1', 'use_unknown'])).to.equal(10);
    allowance.applyLease({ amount: 10, balance: 10 }, ['use_1', 'use_unknown']);
    expect([allowance.reserved, allowance.unbooked]).to.deep.equal([0, []]);
    expect(allowance.reserve(1)).to.equal(true);
  });

  it('refuses every reservation when nothing is leased', () => {
    const allowance = leasedFrom(10);
    allowance.applyLease({ amount: 0, balance: 0 }, []);
    expect(allowance.reserve(0)).to.equal(false);
  });

  it('is empty when the account has no credits left, but not when only the lease is too small', () => {
    const allowance = leasedFrom(10);
    allowance.reserve(30);
    expect([allowance.reserve(1), allowance.isEmpty]).to.deep.equal([false, false]);
    allowance.applyLease({ amount: 0, balance: 50 }, []);
    expect([allowance.reserve(1), allowance.isEmpty]).to.deep.equal([false, false]);
    allowance.spend(30, 'use_1', 50);
    expect(allowance.isEmpty).to.equal(true);
    allowance.applyLease({ amount: 5, balance: 5 }, ['use_1']);
    expect(allowance.isEmpty).to.equal(false);
    allowance.spend(0, 'use_2', 5);
    expect(allowance.isEmpty).to.equal(true);
    // it was booked just now, and the balance may show it or not
    allowance.applyLease({ amount: 0, balance: 5 }, [], ['use_2']);
    expect(allowance.isEmpty).to.equal(false);
  });

  it('runs low when half of it is reserved, and before its first lease', () => {
    const allowance = new CreditAllowance();
    expect(allowance.isRunningLow).to.equal(true);
    allowance.applyLease({ amount: 10, balance: 10 }, []);
    allowance.reserve(20);
    allowance.applyLease({ amount: 60, balance: 60 }, []);
    expect(allowance.isRunningLow).to.equal(false);
    allowance.reserve(19);
    expect(allowance.isRunningLow).to.equal(false);
    allowance.reserve(1);
    expect(allowance.isRunningLow).to.equal(true);
  });
});
