import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import mongoose from 'mongoose';
import { defaultCacheFolder } from '../../../src/cli/cache-folder.ts';
import { checkReplicaSet } from '../../../src/cli/doctor/database.ts';
import { findMongod, mongodSources } from '../../../src/cli/mongo/binary.ts';
import { requireReplicaSet } from '../../../src/mongo/connection/connection.ts';
import { command } from '../../cli/recorded-terminal.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { freePorts } from '../../support/servers/free-ports.ts';

async function startStandalone() {
  const mongod = await findMongod(mongodSources(defaultCacheFolder()), () => {});
  const dbPath = await mkdtemp(join(tmpdir(), 'standalone-'));
  const port = await freePorts(1);
  const child = spawn(mongod, ['--dbpath', dbPath, '--port', String(port), '--bind_ip', '127.0.0.1'], {
    stdio: 'ignore',
  });
  const uri = `mongodb://127.0.0.1:${port}/test`;
  const connection = await mongoose.createConnection(uri).asPromise();
  return {
    connection,
    uri,
    async stop() {
      await connection.close();
      child.kill('SIGKILL');
      await once(child, 'exit');
      await rm(dbPath, { recursive: true, force: true });
    },
  };
}

describe('A standalone mongod', function () {
  this.timeout(180_000);
  let standalone: Awaited<ReturnType<typeof startStandalone>>;
  const said: string[] = [];
  const logger = { ...silentLogger, warn: (line: string) => void said.push(line) };

  before(async () => {
    standalone = await startStandalone();
  });
  after(() => standalone.stop());

  it('is refused, with the reason and the remedy', async () => {
    const refused = await requireReplicaSet(standalone.connection, { allowStandalone: false, logger }).catch((e) => e);

    expect([refused.code, refused.param]).to.deep.equal(['invalid_options', 'mongo']);
    expect(refused.message).to.match(/standalone.*can be lost.*--replSet.*allowStandalone/);
  });

  it('is accepted with allowStandalone, and one warning says what can be lost', async () => {
    await requireReplicaSet(standalone.connection, { allowStandalone: true, logger });

    expect(said).to.have.length(1);
    expect(said[0]).to.include('can be lost');
  });

  it('is refused by a command, which names its variable and no option that only a host has', async () => {
    const env = { MONGODB_URI: standalone.uri };
    const { code, stderr } = await command(['keys', 'create', '--database', '--user', 'usr_1'], { env });
    expect(code).to.equal(1);
    expect(stderr).to.match(/^MONGODB_URI: this is a standalone mongod: .*run rs\.initiate\(\) once$/m);
  });

  it('fails a check of doctor, with a remedy', async () => {
    const admin = standalone.connection.getClient().db('admin');
    const [found] = await checkReplicaSet({ admin });
    expect(found).to.include({ status: 'failed' });
    expect(found?.remedy).to.include('--replSet');
  });

  it('is not confused with a replica set, which is accepted without a warning', async () => {
    const { connection, drop } = await freshDatabase();
    const saidBefore = said.length;
    expect(await requireReplicaSet(connection, { allowStandalone: false, logger })).to.equal(true);
    expect(said).to.have.length(saidBefore);
    await drop();
  });
});
