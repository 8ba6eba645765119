import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'chai';
import { root } from '../package/tarball.ts';
import { documentText } from './documents.ts';

describe('docs/architecture.md', () => {
  const files = readdirSync(path.join(root, 'src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      path.relative(path.join(root, 'src'), path.join(entry.parentPath, entry.name)).replaceAll('\\', '/'),
    );
  const named = [...documentText('docs/architecture.md').matchAll(/`([\w./-]+\.ts)`/g)].map(
    ([, name]) => name as string,
  );

  it('names only files that exist', () => {
    expect(named.length).to.be.greaterThan(40);
    const isSource = (name: string) => files.some((file) => file === name || file.endsWith(`/${name}`));
    const missing = named.filter((name) =>
      name.startsWith('test/') ? !existsSync(path.join(root, name)) : !isSource(name.replace(/^src\//, '')),
    );
    expect(missing).to.deep.equal([]);
  });
});
