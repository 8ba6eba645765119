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
  const text = documentText('docs/architecture.md');
  const named = [...text.matchAll(/`([\w./-]+\.ts)`/g)].map(([, name]) => name as string);

  it('names only files that exist', () => {
    expect(named.length).to.be.greaterThan(40);
    const isSource = (name: string) => files.some((file) => file === name || file.endsWith(`/${name}`));
    const missing = named.filter((name) =>
      name.startsWith('test/') ? !existsSync(path.join(root, name)) : !isSource(name.replace(/^src\//, '')),
    );
    expect(missing).to.deep.equal([]);
  });

  it('describes every folder of src', () => {
    const [, tree = ''] = /^```text\n([\s\S]*?)^```/m.exec(text) ?? [];
    const described: string[] = [];
    const path: string[] = [];
    for (const [, indent = '', name = ''] of tree.matchAll(/^( *)([\w-]+)\/ +\S/gm)) {
      path.length = indent.length / 2 - 1;
      path.push(name);
      described.push(path.join('/'));
    }
    const folders = [...new Set(files.map((file) => file.split('/').slice(0, -1).join('/')))];
    // the page has a folder for each subject; the sentence about page/ says so
    const expected = folders.filter((folder) => folder !== '' && !/^dashboard\/page\//.test(folder));
    expect(expected.filter((folder) => !described.includes(folder))).to.deep.equal([]);
    expect(
      described.filter((folder) => !folders.some((one) => one === folder || one.startsWith(`${folder}/`))),
    ).to.deep.equal([]);
  });

  it('describes every file at the root of src, which has at most ten', () => {
    const [, tree = ''] = /^```text\n([\s\S]*?)^```/m.exec(text) ?? [];
    const atRoot = files.filter((file) => !file.includes('/'));
    const described = [...tree.matchAll(/^ {2}([\w.-]+\.\w+) +\S/gm)].map(([, name]) => name as string);
    // what the compiler is told says itself what it is
    expect(atRoot.filter((file) => file !== 'tsconfig.json')).to.have.members(described);
    expect(atRoot.length).to.be.at.most(10);
  });

  it('walks in at most 15 stops, and never back into a file', () => {
    const [, walks = ''] = /^## Walks$([\s\S]*?)^### What a crash/m.exec(text) ?? [];
    const lists = walks
      .split(/^### /m)
      .slice(1)
      .map((walk) => [...walk.matchAll(/^\d+\. `([\w./-]+)`/gm)].map(([, file]) => file));
    expect(lists).to.have.length(3);
    for (const stops of lists) {
      expect(stops.length).to.be.within(10, 15);
      expect(new Set(stops).size).to.equal(stops.length);
    }
  });
});
