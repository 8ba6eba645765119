import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import mongoose from 'mongoose';
import { uriOf } from '../../support/mongo.ts';
import { settings } from './settings.ts';
import { useGateway } from './use.ts';

const run = promisify(execFile);
const { dirname, filename } = import.meta;
const major = mongoose.version.split('.')[0];

describe(`None of these changes what a gateway does, with mongoose ${major}:`, () => {
  for (const setting of settings) it(setting.name, () => useGateway(setting));
});

// where it gets version 8, it is that process
if (major !== '8') {
  describe('All that again', function () {
    this.timeout(900_000);

    it('with mongoose 8', async () => {
      const flags = ['--import', 'tsx', '--import', path.join(dirname, 'mongoose8.mjs')];
      const options = ['--no-config', '--no-parallel', '--require', 'test/support/mongo.ts', '--timeout', '60000'];
      const { MOCHA_WORKER_ID: _, ...inherited } = process.env;
      const env = { ...inherited, TEST_MONGODB_URI: uriOf('admin') };
      const command = [...flags, 'node_modules/mocha/bin/mocha.js', ...options, filename];
      const { stdout } = await run('node', command, { env, maxBuffer: 10_000_000 }).catch(({ stdout, message }) =>
        expect.fail(stdout || message),
      );
      expect(stdout)
        .to.contain('with mongoose 8:')
        .and.match(/\d\d passing/);
    });
  });
}
