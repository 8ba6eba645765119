import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../..', import.meta.url));
const biome = path.join(root, 'node_modules/@biomejs/biome/bin/biome');

const wrong: [file: string, line: string, says: string][] = [
  ['src/proxy/x.ts', "export type { KeyService } from '../keys/service.ts';", 'proxy imports no domain'],
  ['src/http/x.ts', "export type { KeyService } from '../keys/service.ts';", 'http imports no domain'],
  ['src/webhooks/x.ts', "export { createJobs } from '../deliveries/jobs.ts';", 'webhooks imports no other domain'],
  ['src/health/x.ts', "export { explain } from '../deliveries/body.ts';", 'health imports no other domain'],
  [
    'src/recoveries/x.ts',
    "export { createHealthService } from '../health/service.ts';",
    'recoveries may import deliveries',
  ],
  ['src/events/x.ts', "export { createJobs } from '../deliveries/jobs.ts';", 'events may import webhooks'],
  [
    'src/receiver/x.ts',
    "export { createSend } from '../deliveries/send.ts';",
    'receiver imports deliveries/signature.ts',
  ],
  ['src/dashboard/x.ts', "export { createKeyService } from '../keys/service.ts';", 'dashboard imports no domain'],
  [
    'src/dashboard/page/x/y.ts',
    "export { GatewayError } from '../../../errors.ts';",
    'the page imports nothing of the',
  ],
  ['src/dashboard/page/x/y.ts', "export { loadFiles } from '../../files.ts';", 'the page imports nothing of the'],
  ['src/dashboard/page/x.tsx', "export { loadFiles } from '../files.ts';", 'the page imports nothing of the'],
  ['src/standalone/x.ts', "export { join } from '../gateway.ts';", 'standalone uses the package as a host does'],
  ['src/standalone/remote/x.ts', "export { join } from '../../index.ts';", 'know its types, and nothing else'],
  ['src/standalone/remote/x.ts', "export { join } from '../place.ts';", 'know its types, and nothing else'],
  ['src/standalone/remote/deep/x.ts', "export { join } from '../../place.ts';", 'know its types, and nothing else'],
  ['src/standalone/terminal/x.ts', "export { join } from '../program.ts';", 'the terminal knows no command'],
  ['src/deliveries/x.ts', "export { Agenda } from 'agenda';", 'agenda belongs to deliveries/jobs'],
  ['src/keys/x.ts', "export { model } from 'mongoose';", 'mongoose belongs to'],
  ['src/proxy/x.ts', "export { modelOf } from '../collection.ts';", 'proxy imports no domain'],
  ['src/http/x.ts', "export { middleware } from 'express-openapi-validator';", 'the validator to http/validate.ts'],
  ['src/keys/x.ts', 'export const home = process.env.HOME;', 'process.env'],
];

const right: [file: string, line: string][] = [
  ['src/deliveries/x.ts', "export type { HttpResponse } from '../outbound/client.ts';"],
  ['src/deliveries/jobs-x.ts', "export { Agenda } from 'agenda';"],
  ['src/keys/model.ts', "export { model } from 'mongoose';"],
  ['src/dashboard/x.ts', "export { sendReply } from '../http/reply.ts';"],
  ['src/dashboard/page/x/y.ts', "export type { components } from '../../../api.d.ts';"],
  ['src/dashboard/page/x/y.ts', "export { href } from '../routing/route.ts';"],
  ['src/keys/model.ts', "export { modelOf } from '../collection.ts';"],
  ['src/standalone/remote/deep/x.ts', "export type { Terminal } from '../../terminal/terminal.ts';"],
  ['src/standalone/x.ts', 'export const home = process.env.HOME;'],
];

/** The linter's verdict on one file that holds this one line, under the project's own rules. */
async function lint(file: string, line: string): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'emg-arrows-'));
  try {
    for (const name of ['biome.json', '.gitignore']) await cp(path.join(root, name), path.join(folder, name));
    await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
    await writeFile(path.join(folder, file), `${line}\n`);
    const { stdout, stderr } = spawnSync('node', [biome, 'lint', '--colors=off'], { cwd: folder, encoding: 'utf8' });
    return stdout + stderr;
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe('the arrows between folders', function () {
  this.timeout(60_000);

  for (const [file, line, says] of wrong) {
    it(`do not let ${file} say ${line}`, async () => {
      expect(await lint(file, line)).to.include(says);
    });
  }

  for (const [file, line] of right) {
    it(`let ${file} say ${line}`, async () => {
      expect(await lint(file, line)).to.match(/Checked 2 files .*No fixes applied/);
    });
  }
});
