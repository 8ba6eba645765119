import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createRenewAllowanceLease } from '../../../src/accounting/allowances.ts';
import { createAccountModel } from '../../../src/accounting/model.ts';
import { freshDatabase } from '../../support/mongo.ts';

describe('The credits that a process leases from a balance', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  const setAsideBy = (holder: string) =>
    createRenewAllowanceLease(createAccountModel(connection, 'gateway_'), holder, 10_000);

  beforeEach(async () => {
    ({ connection, drop } = await freshDatabase());
    const account = { _id: 'usr_1', balance: 10, low: false, depleted: false, leases: [] };
    await createAccountModel(connection, 'gateway_').create(account);
  });
  afterEach(() => drop());

  it('are as many as it asks for and no other process has leased', async () => {
    expect(await setAsideBy('one')('usr_1', 7, 1)).to.deep.equal({ amount: 7, balance: 10 });
    expect(await setAsideBy('two')('usr_1', 7, 1)).to.deep.equal({ amount: 3, balance: 10 });
    expect(await setAsideBy('one')('usr_1', 2, 2)).to.deep.equal({ amount: 2, balance: 10 });
    expect(await setAsideBy('two')('usr_1', 9, 2)).to.deep.equal({ amount: 8, balance: 10 });
  });

  it('stay the same when an older request reaches the database late', async () => {
    const setAside = setAsideBy('one');
    await setAside('usr_1', 6, 2);
    expect(await setAside('usr_1', 4, 1)).to.deep.equal({ amount: 6, balance: 10 });
    expect(await setAside('usr_1', 9, 1)).to.deep.equal({ amount: 6, balance: 10 });
    expect(await setAsideBy('two')('usr_1', 9, 1)).to.deep.equal({ amount: 4, balance: 10 });
  });
});
