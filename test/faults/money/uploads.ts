import type { Connection } from 'mongoose';
import type { WorkerAddress } from '../workers/workers.ts';
import type { SeenCall } from './calls.ts';
import { type ClientDeps, startClient } from './client.ts';
import type { Answer } from './socket-call.ts';

/** A file that a client has sent up; once, whatever came of it. */
export interface SeenUpload extends SeenCall {
  /** As it was acknowledged. */
  readonly fileId?: string;
}

/** Milliseconds between two uploads. */
const gap = 600;
/** A client gives up then. Milliseconds. */
const maxWait = 70_000;
/** The largest file. Bytes. */
const largest = 300_000;

export interface UploadsDeps extends ClientDeps {
  /** Of the account `rich`. */
  readonly key: string;
}

async function readAnswer(response: Response): Promise<Answer & { readonly fileId?: string }> {
  const { status } = response;
  try {
    const { id, error } = (await response.json()) as { id: string; error?: { code: string; message: string } };
    return { status, isWhole: true, ...(status === 200 && { fileId: id }), ...error };
  } catch {
    return { status, isWhole: false };
  }
}

/** A client that uploads files whatever breaks, each once, and writes down what came of it. */
export function startUploads({ addresses, key, random }: UploadsDeps) {
  const seen: SeenUpload[] = [];
  let serial = 0;

  async function upload({ pid, url }: WorkerAddress): Promise<void> {
    serial += 1;
    const id = `upload-${process.pid}-${serial}-${Date.now()}`;
    const body = new FormData();
    body.append('purpose', 'user_data');
    body.append('file', new Blob([Buffer.alloc(random.below(largest), serial)]), `${id}.bin`);
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': id };
    const sentAt = Date.now();
    const sent = fetch(`${url}/v1/files`, { method: 'POST', headers, body, signal: AbortSignal.timeout(maxWait) });
    const answer = await sent.then(readAnswer, (): Answer => ({ status: 0, isWhole: false }));
    seen.push({ id, account: 'rich', pid, sentAt, endedAt: Date.now(), ...answer });
  }

  return { seen, ...startClient([{ gap, send: upload }], { addresses, random }) };
}

/** Files that were acknowledged and do not belong to the account, and those that were acknowledged twice. */
export async function fileFaults(
  connection: Connection,
  userId: string,
  uploads: readonly SeenUpload[],
): Promise<string[]> {
  const ids = uploads.flatMap(({ fileId }) => fileId ?? []);
  const stored = connection.collection<{ readonly _id: string }>('gateway_stored');
  const found = await stored.find({ _id: { $in: ids }, userId, kind: 'file' }, { projection: { _id: 1 } }).toArray();
  const own = new Set(found.map(({ _id }) => _id));
  return [
    ...ids.filter((id) => !own.has(id)).map((id) => `file ${id} was acknowledged, and is not in the account's list`),
    ...ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => `file ${id} was acknowledged twice`),
  ];
}
