import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { freshUri } from '../support/mongo.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { type checkout, Installations, nodeFolder, type Packages } from './install.ts';
import { commandTime, shell } from './shell.ts';

const projects = fileURLToPath(new URL('projects/', import.meta.url));

/** A project that the package is installed into: a row of the table. */
export interface Host {
  readonly name: string;
  readonly packages: Packages | typeof checkout;
  /** The files of `projects` that it consists of beside `host.cjs`. What a folder contains is at its top. */
  readonly files: readonly string[];
  /** The major version of Node that runs it, one of `packages`. @default the machine's */
  readonly node?: number;
  /** Command lines before `run`. They find the programs of `packages`, and the packed tarball as `$TARBALL`. */
  readonly build?: readonly string[];
  readonly run: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Whether it installs its packages itself: then it finds only the programs of `packages`. @default false */
  readonly installs?: boolean;
  /** The folder that it is built into, if `run` finds that alone, without a node_modules. */
  readonly bundle?: string;
  /** What its report says that is not in `allWorks`; `undefined` is not in its report. */
  readonly report?: Readonly<Record<string, unknown>>;
  /** Whether it may write to stderr, as test runners and frameworks do. @default false */
  readonly talks?: boolean;
}

/** The report of a host where all works: `projects/host.cjs` says what it does. */
const allWorks = {
  refused: 'invalid_options',
  chat: 'Hello to you',
  requests: [
    201,
    '400 missing_required_parameter events',
    '400 invalid_type events[1]',
    '400 unknown_parameter colour',
    200,
    '400 invalid_type limit',
  ],
  published: 'evt_',
  started: true,
  delivered: true,
};

/** Lays the files of a host out, builds it and runs it. @returns its report, and what it wrote to stderr meanwhile */
async function runHost(
  host: Host,
  { installed, tarball, upstream }: { installed: string; tarball: string; upstream: string },
): Promise<{ report: unknown; stderr: string }> {
  const project = await mkdtemp(path.join(host.installs ? tmpdir() : installed, 'emg-project-'));
  for (const name of ['package.json', 'host.cjs', 'host.d.cts', ...host.files]) {
    const isFile = path.extname(name) !== '';
    await cp(path.join(projects, name), isFile ? path.join(project, name) : project, { recursive: true });
  }
  const modules = path.join(installed, 'node_modules');
  // before the programs of packages: Node's is one of them
  const node = host.node ? nodeFolder(installed, host.node) : path.dirname(process.execPath);
  const env = {
    ...process.env,
    PATH: [node, path.join(modules, '.bin'), process.env.PATH].join(path.delimiter),
    TARBALL: tarball,
    MONGODB_URI: freshUri(),
    UPSTREAM_URL: upstream,
    HOST_REPORT: path.join(project, 'report.json'),
    ...host.env,
  };
  const cwd = host.bundle ? await mkdtemp(path.join(tmpdir(), 'emg-bundle-')) : project;
  try {
    for (const command of host.build ?? []) await shell(command, { cwd: project, env });
    if (host.bundle) await cp(path.join(project, host.bundle), cwd, { recursive: true });
    // a host that does not end by itself has kept something open
    const { stderr } = await shell(host.run, { cwd, env });
    return { report: JSON.parse(await readFile(env.HOST_REPORT, 'utf8')), stderr };
  } finally {
    await Promise.all([project, cwd].map((folder) => rm(folder, { recursive: true, force: true })));
  }
}

/** What is expected of a host. */
function expectedOf({ report }: Host): object {
  return Object.fromEntries(Object.entries({ ...allWorks, ...report }).filter(([, value]) => value !== undefined));
}

/** Declares a test for each host. Those with the same packages share an installation. */
export function testHosts(title: string, hosts: readonly Host[]): void {
  describe(title, function () {
    this.timeout(2 * commandTime);
    const installations = new Installations();
    let upstream: ScriptedUpstream;

    before(async () => {
      upstream = await ScriptedUpstream.start();
      const message = { role: 'assistant', content: 'Hello to you' };
      const choices = [{ index: 0, message, finish_reason: 'stop' }];
      const usage = { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 };
      upstream.script = json(200, { object: 'chat.completion', created: 1, model: 'small', choices, usage });
    });
    after(() => Promise.all([upstream.close(), installations.remove()]));

    for (const host of hosts) {
      it(host.name, async () => {
        const [installed, tarball] = [await installations.folderOf(host.packages), await installations.tarball()];
        const { report, stderr } = await runHost(host, { installed, tarball, upstream: upstream.baseUrl });
        expect(report, stderr).to.deep.equal(expectedOf(host));
        if (!host.talks) expect(stderr).to.equal('');
      });
    }
  });
}
