import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request } from 'node:http';
import { listenOn } from '../../support/listen.ts';
import type { Target } from './load.ts';

const mebibyte = 1024 * 1024;
/** Of each file. Bytes. */
export const fileLength = 64 * mebibyte;
const piece = Buffer.alloc(mebibyte, 'x');

/** Starts a provider that drops the files that it gets, and gives out one of the same length. */
export async function startFileUpstream(): Promise<{ readonly port: number; readonly close: () => void }> {
  let files = 0;
  const server = createServer((req, res) => {
    if (req.method === 'GET') {
      res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': fileLength });
      const write = (left: number): void => {
        if (left === 0) res.end();
        else if (res.write(piece)) setImmediate(write, left - piece.length);
        else res.once('drain', () => write(left - piece.length));
      };
      return write(fileLength);
    }
    req.resume().on('end', () => {
      files += 1;
      res.writeHead(200, { 'content-type': 'application/json' }).end(`{"id":"file-${files}","object":"file"}`);
    });
  });
  return { port: await listenOn(server), close: () => server.close() };
}

const agent = new Agent({ keepAlive: true });

function ask({ port, key }: Target, method: 'GET' | 'POST', path: string, length?: number) {
  const headers = {
    authorization: `Bearer ${key}`,
    ...(length !== undefined && { 'content-length': length, 'content-type': 'multipart/form-data; boundary=x' }),
  };
  return request({ host: '127.0.0.1', port, agent, method, path, headers });
}

async function answerTo(sent: ReturnType<typeof ask>): Promise<IncomingMessage> {
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  if (answer.statusCode !== 200) throw new Error(`a file was answered ${answer.statusCode}`);
  return answer;
}

/** Uploads a file. @returns its id */
export async function upload(target: Target): Promise<string> {
  const sent = ask(target, 'POST', '/v1/files', fileLength);
  const answered = answerTo(sent);
  for (let left = fileLength; left > 0; left -= piece.length) if (!sent.write(piece)) await once(sent, 'drain');
  sent.end();
  let text = '';
  for await (const chunk of await answered) text += chunk;
  return (JSON.parse(text) as { id: string }).id;
}

/** Downloads a file. */
export async function download(target: Target, id: string): Promise<void> {
  const sent = ask(target, 'GET', `/v1/files/${id}/content`);
  sent.end();
  let length = 0;
  for await (const chunk of await answerTo(sent)) length += (chunk as Buffer).length;
  if (length !== fileLength) throw new Error(`a file came with ${length} bytes`);
}
