import { cp, rm } from 'node:fs/promises';
import mongoose from 'mongoose';
import { describeRestore } from './restore-under-load.ts';

describeRestore('A copy of the files of the database', {
  /** While the database takes no writes. */
  async backUp({ uri }, { data, copy }) {
    const client = await mongoose.createConnection(uri).asPromise();
    const admin = client.getClient().db('admin');
    try {
      await admin.command({ fsync: 1, lock: true });
      await cp(data, copy, { recursive: true, filter: (path) => !path.endsWith('.sock') });
      await admin.command({ fsyncUnlock: 1 });
    } finally {
      await client.close();
    }
  },
  async restore({ data, copy }, start) {
    await rm(data, { recursive: true });
    await cp(copy, data, { recursive: true });
    return start();
  },
});
