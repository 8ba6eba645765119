import { createWriteStream, openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { type Api, dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, subject } from '../client/api-command.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import { type Column, detailLines, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { relative } from '../terminal/text.ts';

type StoredFile = Schemas['StoredFile'];

/** When something was made, by its seconds since 1970. */
export const ago = (seconds: number | undefined, now: number): string =>
  seconds === undefined ? '' : relative(new Date(seconds * 1_000).toISOString(), now);

const bytes = ({ bytes: length }: StoredFile): string => length?.toLocaleString('en-US') ?? '';

const columns: readonly Column<StoredFile>[] = [
  { header: 'FILE', cell: ({ id }) => id },
  { header: 'PURPOSE', cell: ({ purpose }) => purpose ?? '' },
  { header: 'BYTES', cell: bytes, align: 'right' },
  { header: 'CREATED', cell: ({ created_at: at }, now) => ago(at, now) },
  { header: 'NAME', cell: ({ filename }) => filename ?? '' },
];

const fileLines = detailLines((file: StoredFile, now) => [
  ['File', file.id],
  ['Name', file.filename],
  ['Purpose', file.purpose],
  ['Bytes', bytes(file)],
  ['Created', ago(file.created_at, now)],
]);

/** Uploads a file from the disk, as it is read. @throws CommandFailure where there is none */
export async function uploadFrom(api: Api, path: string, purpose: string): Promise<StoredFile> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) throw wrongUse(`There is no file ${path}.`);
  const form = new FormData();
  form.append('purpose', purpose);
  form.append('file', await openAsBlob(path), basename(path));
  const body = { purpose, file: path };
  return dataFrom(api.POST('/v1/files', { body, bodySerializer: () => form }));
}

export function filesCommand(terminal: Terminal): Command {
  return subject('files', 'upload, list, download and delete the files of your account', [
    new ApiCommand(terminal, 'list', 'your files, newest first')
      .option('--purpose <purpose>', 'only those with this purpose, such as batch')
      .examples('files list', "files list --purpose batch --json | jq -r '.data[].id'")
      .lists<{ purpose?: string }, StoredFile>(
        ['--after <file>', 'those before this one'],
        ({ api }, page, { purpose }) =>
          api.GET('/v1/files', { params: { query: { ...page, ...(purpose !== undefined && { purpose }) } } }),
        listLines(columns, 'No files.'),
      ),
    new ApiCommand(terminal, 'show', 'one file: its name, purpose and size')
      .argument('<file>', 'its id')
      .examples('files show file-9f2c')
      .shows(
        ({ api }, file_id: string) => api.GET('/v1/files/{file_id}', { params: { path: { file_id } } }),
        fileLines,
      ),
    new ApiCommand(terminal, 'upload', 'send a file up, and print its id')
      .argument('<path>', 'the file')
      .option('--purpose <purpose>', 'what it is for: user_data, batch, vision, …', 'user_data')
      .examples('files upload rivers.pdf', 'files upload requests.jsonl --purpose batch')
      .runs(async ({ api, show }, path: string, { purpose }: { purpose: string }) => {
        show(await uploadFrom(api, path, purpose), ({ id }) => [id]);
      }),
    new ApiCommand(terminal, 'download', 'write the bytes of a file to the disk')
      .argument('<file>', 'its id')
      .argument('<path>', 'where to write it; a file that is there is kept')
      .examples('files download file-9f2c answers.jsonl')
      .runs(async ({ api }, file_id: string, path: string) => {
        const call = { params: { path: { file_id } }, parseAs: 'stream', headers: { accept: '*/*' } } as const;
        const content = await dataFrom(api.GET('/v1/files/{file_id}/content', call));
        const written = createWriteStream(path, { flags: 'wx' });
        await pipeline(Readable.fromWeb(content as Parameters<typeof Readable.fromWeb>[0]), written);
        terminal.print(`${path}: ${written.bytesWritten.toLocaleString('en-US')} bytes`);
      }),
    new ApiCommand(terminal, 'delete', 'delete a file at its provider')
      .argument('<file>', 'its id')
      .examples('files delete file-9f2c')
      .shows(
        ({ api }, file_id: string) => api.DELETE('/v1/files/{file_id}', { params: { path: { file_id } } }),
        ({ id }) => [`${id} is deleted.`],
      ),
  ]);
}
