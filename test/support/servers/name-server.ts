import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { listenOn } from '../listen.ts';

/** What a name leads to, as a name server says it. */
export interface Answer {
  /** IPv4 and IPv6 addresses; a question for one family gets those of that family. */
  readonly addresses?: readonly string[];
  /** The name that is asked for is an alias of this one, which has the addresses. */
  readonly alias?: string;
  /** RFC 1035, section 4.1.1: 2 is SERVFAIL, 3 NXDOMAIN, 5 REFUSED. @default 0 */
  readonly code?: number;
  /** Says over UDP that the answer does not fit, so that it is asked for over TCP. */
  readonly truncated?: boolean;
}

/** Answers a question, late or never. */
export type Script = (name: string, family: 4 | 6) => Answer | Promise<Answer>;

/** Never answers. */
export const silence: Script = () => new Promise(() => {});

function encodeName(name: string): Buffer {
  const labels = name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)]));
  return Buffer.concat([...labels, Buffer.from([0])]);
}

function bytesOf(address: string): Buffer {
  if (!address.includes(':')) return Buffer.from(address.split('.').map(Number));
  const [head = '', tail = ''] = address.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const zeros = 8 - groups(head).length - groups(tail).length;
  return Buffer.from(
    [...groups(head), ...Array(zeros).fill('0'), ...groups(tail)].map((group) => group.padStart(4, '0')).join(''),
    'hex',
  );
}

function record(name: string, type: number, data: Buffer): Buffer {
  const fixed = Buffer.from([0, type, 0, 1, 0, 0, 0, 0, data.length >> 8, data.length & 0xff]);
  return Buffer.concat([encodeName(name), fixed, data]);
}

interface Question {
  readonly id: number;
  readonly name: string;
  readonly type: number;
  /** The question as it came, to be repeated in the answer. */
  readonly bytes: Buffer;
}

function questionIn(message: Buffer): Question {
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = message.readUInt16BE(at + 1);
  return { id: message.readUInt16BE(0), name: labels.join('.'), type, bytes: message.subarray(12, at + 5) };
}

function encode({ id, name, type, bytes }: Question, answer: Answer, overUdp: boolean): Buffer {
  const { addresses = [], alias, code = 0 } = answer;
  const truncated = overUdp && answer.truncated === true;
  const ofFamily = addresses.filter((address) => address.includes(':') === (type === 28));
  const records = ofFamily.map((address) => record(alias ?? name, type, bytesOf(address)));
  if (alias !== undefined) records.unshift(record(name, 5, encodeName(alias)));
  const sent = truncated ? [] : records;
  const head = Buffer.alloc(12);
  head.writeUInt16BE(id, 0);
  head.writeUInt16BE(0x8180 | (truncated ? 0x0200 : 0) | code, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(sent.length, 6);
  return Buffer.concat([head, bytes, ...sent]);
}

/** A name server on loopback, over UDP and TCP, that answers by a script. */
export async function startNameServer(script: Script) {
  const asked: string[] = [];
  const current = { script };
  const udp = createSocket('udp4');
  const sockets = new Set<Socket>();
  let open = true;

  async function answerTo(message: Buffer, overUdp: boolean): Promise<Buffer> {
    const question = questionIn(message);
    asked.push(question.name);
    return encode(question, await current.script(question.name, question.type === 28 ? 6 : 4), overUdp);
  }

  const tcp = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    if (!open) socket.destroy();
    socket.on('data', async (data) => {
      for (let at = 0; at < data.length; at += 2 + data.readUInt16BE(at)) {
        const answer = await answerTo(data.subarray(at + 2), false);
        socket.write(Buffer.concat([Buffer.from([answer.length >> 8, answer.length & 0xff]), answer]));
      }
    });
  });
  udp.on('message', async (message: Buffer, { port, address }: RemoteInfo) => {
    const answer = await answerTo(message, true);
    if (open) udp.send(answer, port, address);
  });
  // both on one port; the free ports of TCP are the scarcer ones
  const port = await listenOn(tcp);
  udp.bind(port, '127.0.0.1');
  await once(udp, 'listening');

  return {
    /** `address:port`. */
    address: `127.0.0.1:${port}`,
    /** The names asked for, one entry for each family and try. */
    asked,
    answers(next: Script) {
      current.script = next;
    },
    stop() {
      open = false;
      udp.close();
      for (const socket of sockets) socket.destroy();
      tcp.close();
    },
  };
}
