import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import module from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { run } from './command.ts';

/** Node 22.1 and newer have one. */
const hasCompileCache = 'enableCompileCache' in module;

describe('The code that the command has compiled', () => {
  let caches: string;
  beforeEach(() => {
    caches = mkdtempSync(path.join(tmpdir(), 'compile-cache-'));
  });
  afterEach(() => rmSync(caches, { recursive: true }));

  /** What a command leaves there: the names of folders and files. */
  async function left(more: Record<string, string> = {}): Promise<string[]> {
    const { code } = await run(['--version'], { XDG_CACHE_HOME: caches, TMPDIR: caches, ...more });
    expect(code).to.equal(0);
    return readdirSync(caches, { recursive: true }).map(String).sort();
  }

  it('is kept among the caches of the user where Node can keep it, and used by the next start', async () => {
    const first = await left();
    expect(first.slice(0, 2)).to.deep.equal(
      hasCompileCache ? ['express-model-gateway', 'express-model-gateway/compiled'] : [],
    );
    expect(await left()).to.deep.equal(first);
  });

  it('is kept nowhere with NODE_DISABLE_COMPILE_CACHE', async () => {
    expect(await left({ NODE_DISABLE_COMPILE_CACHE: '1' })).to.deep.equal([]);
  });
});
