import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { FileProvider } from '../../stored/file-provider.ts';
import { until } from '../../support/until.ts';
import { type Commanded, startCommanded } from './gateway-commands.ts';

describe('express-model-gateway files, batches and storage', () => {
  let provider: FileProvider;
  let live: Commanded;
  let folder: string;
  before(async () => {
    provider = await FileProvider.start();
    live = await startCommanded({ upstreams: [{ name: 'one', baseUrl: provider.baseUrl }] });
    folder = await mkdtemp(join(tmpdir(), 'files-'));
  });
  after(async () => {
    await live.close();
    await provider.close();
    await rm(folder, { recursive: true });
  });

  async function onDisk(name: string, text: string): Promise<string> {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  }

  it('upload, list, show, download and delete files', async () => {
    expect((await live.run('files', 'list')).stdout).to.equal('No files.\n');
    const uploaded = await live.run('files', 'upload', await onDisk('rivers.txt', 'Tagus'));
    expect(uploaded).to.include({ code: 0, stderr: '' });
    const id = uploaded.stdout.trim();
    expect((await live.run('files', 'list', '--purpose', 'user_data')).stdout).to.match(/user_data +5 .*rivers\.txt/);
    expect((await live.run('files', 'show', id)).stdout).to.match(/^Name +rivers\.txt$/m);
    const copy = join(folder, 'copy.txt');
    expect(await live.run('files', 'download', id, copy)).to.include({ code: 0, stdout: `${copy}: 5 bytes\n` });
    expect(await readFile(copy, 'utf8')).to.equal('Tagus');
    const again = await live.run('files', 'download', id, copy);
    expect(again.code).to.equal(1);
    expect(again.stderr).to.include('EEXIST');
    const nothing = join(folder, 'nothing.txt');
    expect(await live.run('files', 'download', 'file-none', nothing)).to.include({ code: 1 });
    expect(existsSync(nothing)).to.equal(false);
    expect((await live.run('files', 'delete', id)).stdout).to.equal(`${id} is deleted.\n`);
    const gone = await live.run('files', 'show', id);
    expect([gone.code, gone.stderr]).to.satisfy(
      ([code, text]: [number, string]) => code === 1 && /^file_not_found: .*\nYour files: /.test(text),
    );
    expect((await live.run('files', 'upload', join(folder, 'none'))).stderr).to.include('There is no file');
  });

  it('list everything that an account keeps, and add it up', async () => {
    const { stdout } = await live.run('files', 'upload', await onDisk('lakes.txt', 'Sanabria'));
    const id = stdout.trim();
    const row = new RegExp(`^${id} +file +8 .* /files +lakes\\.txt$`, 'm');
    expect((await live.run('storage', 'list', '--kind', 'file')).stdout).to.match(row);
    expect((await live.run('storage', 'list', '--user', 'usr_1')).stdout).to.match(row);
    expect((await live.run('storage', 'list', '--user', 'usr_2')).stdout).to.equal('Nothing.\n');
    const { json } = await live.run('storage', 'totals', '--json');
    expect(json).to.deep.equal({ data: [{ kind: 'file', count: 1, bytes: 8, has_more: false }] });
    expect((await live.run('storage', 'totals')).stdout).to.match(/^file +1 +8$/m);
    const wrong = await live.run('storage', 'list', '--kind', 'thing');
    expect([wrong.code, wrong.stderr]).to.satisfy(([code, text]: [number, string]) => code !== 0 && /kind/.test(text));
    await live.run('files', 'delete', id);
    // with the form around each file; the second download found its file there, and asked for nothing
    await until(
      async () => /UPLOADED BYTES +DOWNLOADED BYTES\n.* \d{3,} +5$/.test((await live.run('usage')).stdout.trim()),
      15_000,
    );
  });

  it('create, list, show and cancel batches', async () => {
    expect((await live.run('batches', 'list')).stdout).to.equal('No batches.\n');
    const line = { url: '/v1/chat/completions', body: { model: 'm', messages: [] } };
    const created = await live.run('batches', 'create', await onDisk('requests.jsonl', JSON.stringify(line)), '--json');
    expect(created).to.include({ code: 0, stderr: '' });
    const { id } = created.json as { id: string };
    expect((await live.run('batches', 'list')).stdout).to.match(/validating +0 of 0 +\/v1\/chat\/completions/);
    expect((await live.run('batches', 'show', id)).stdout).to.match(/^State +validating$/m);
    expect((await live.run('batches', 'cancel', id)).stdout).to.match(/^State +cancelling$/m);
    provider.batches.set(id, { id, object: 'batch', status: 'cancelled' });
    const refused = await live.run('batches', 'create', await onDisk('no.jsonl', '{}'));
    expect(refused.stderr).to.match(/^invalid_value: input_file_id: line 1: url/);
  });
});
