import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** A version of the package that is newer than this one. */
export interface Release {
  readonly packageVersion: string;
  readonly schemaVersion: number;
  /** The oldest schema version that may run beside it. */
  readonly compatibleFrom: number;
}

/** A build, and what removes it. */
export interface Build {
  readonly createModelGateway: typeof import('../../src/index.ts').createModelGateway;
  remove(): Promise<void>;
}

/** An index of events that only newer versions have. */
export const newIndex = 'typeEvents';
/** A field of events and deliveries that only newer versions write. */
export const newField = 'addedLater';

/** What differs in the build: the file, a text in it, and what stands in its place. */
const changes = ({ schemaVersion, compatibleFrom }: Release) =>
  [
    ['mongo/schema/prepare-schema.js', 'schemaVersion = 1;', `schemaVersion = ${schemaVersion};`],
    ['mongo/schema/prepare-schema.js', 'compatibleFrom = 1;', `compatibleFrom = ${compatibleFrom};`],
    [
      'events/model.js',
      '{ userId: 1, _id: -1 }, ',
      `{ type: 1, _id: -1 }, { name: '${newIndex}' }).index({ userId: 1, _id: -1 }, `,
    ],
    ['events/outbox.js', "'pending', ...event", `'pending', ${newField}: true, ...event`],
    ['deliveries/fan-out.js', "state: 'pending',", `state: 'pending', ${newField}: true,`],
  ] as const;

/**
 * Stands for a newer version of the package, as long as there is none: the build of this one (`npm run build`), with a schema version, an
 * index and fields that this version does not know.
 */
export async function buildNewer(release: Release): Promise<Build> {
  const folder = await mkdtemp(join(tmpdir(), 'express-model-gateway-newer-'));
  await cp(join(root, 'dist'), join(folder, 'dist'), { recursive: true, filter: (path) => !path.endsWith('.d.ts') });
  await cp(join(root, 'openapi.yaml'), join(folder, 'openapi.yaml'));
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const manifest = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ ...manifest, version: release.packageVersion }));
  for (const [name, text, replacement] of changes(release)) {
    const file = join(folder, 'dist', name);
    const source = await readFile(file, 'utf8');
    if (!source.includes(text)) throw new Error(`dist/${name} has no ${text}`);
    await writeFile(file, source.replace(text, replacement));
  }
  const { createModelGateway } = await import(pathToFileURL(join(folder, 'dist/index.js')).href);
  return { createModelGateway, remove: () => rm(folder, { recursive: true, force: true }) };
}
