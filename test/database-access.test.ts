import { expect } from 'chai';
import { createDatabaseAccess } from '../src/database-access.ts';
import { freshDatabase } from './support/mongo.ts';

describe('what needs the database', () => {
  it('is not begun when the time for it has passed while it waited', async () => {
    const { connection, drop } = await freshDatabase();
    const access = createDatabaseAccess(connection, { info() {}, warn() {} });
    try {
      let begun = 0;
      const work = async () => {
        begun += 1;
      };
      const error = await access.run(work, 100, 100).catch((thrown) => thrown);
      expect(error).to.include({ code: 'database_unavailable' });
      expect(begun).to.equal(0);
      await access.run(work, 100, 99);
      expect(begun).to.equal(1);
    } finally {
      access.close();
      await drop();
    }
  });
});
