import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { skipWithout } from '../documentation/runtimes.ts';
import { describeRestore } from './restore-under-load.ts';

const run = promisify(execFile);

/** The URI without a database: `--oplog` is for dumps of all of them. */
const clusterUri = (uri: string) => uri.replace('/gateway?', '/?');

describe('mongodump and mongorestore', () => {
  before(function () {
    // distributions do not have MongoDB's tools
    for (const command of ['mongodump', 'mongorestore']) {
      skipWithout(this, { command, version: ['--version'], isOptional: true });
    }
  });

  describeRestore('A dump of the database with its oplog', {
    async backUp({ uri }, { copy }) {
      await run('mongodump', [`--uri=${clusterUri(uri)}`, '--oplog', '--gzip', `--archive=${copy}`]);
    },
    async restore({ data, copy }, start) {
      // the key stays, and with it the user's password
      await rm(join(data, 'mongo'), { recursive: true });
      const database = await start();
      await run('mongorestore', [`--uri=${clusterUri(database.uri)}`, '--oplogReplay', '--gzip', `--archive=${copy}`]);
      return database;
    },
  });
});
