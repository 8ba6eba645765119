import { expect } from 'chai';
import { addressesIn } from '../../src/outbound/addresses.ts';

describe('the hosts file', () => {
  const file =
    '# comment\n127.0.0.1\tlocalhost\n10.0.0.5  db.internal DB2.internal # the database\r\nfd00::5 db.internal\n';

  it('gives every address of a name, in upper or lower case', () => {
    expect(addressesIn(file, 'DB.internal')).to.deep.equal(['10.0.0.5', 'fd00::5']);
    expect(addressesIn(file, 'db2.internal')).to.deep.equal(['10.0.0.5']);
  });

  it('gives no address for a word of a comment or a part of a name', () => {
    expect(addressesIn(file, 'comment')).to.deep.equal([]);
    expect(addressesIn(file, 'the')).to.deep.equal([]);
    expect(addressesIn(file, 'internal')).to.deep.equal([]);
  });
});
