import type { Socket } from 'node:net';

const continueHead = /^HTTP\/1\.[01] 100(?: [^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*\r\n/;
/** What a 100 may be long. Bytes. */
const lookAhead = 1_024;

function lengthOfContinues(chunk: Buffer): number {
  let length = 0;
  for (;;) {
    const head = continueHead.exec(chunk.toString('latin1', length, length + lookAhead));
    if (!head) return length;
    length += head[0].length;
  }
}

/**
 * Takes 100 (Continue) out of what a socket reads at the start of an answer. Any server or proxy may send it unasked
 * (RFC 9110, section 15.2), and undici closes the connection on it, after the request has been received.
 * @returns whether one came since the last bytes were written
 */
export function skipContinue(socket: Socket): () => boolean {
  const read = socket.read.bind(socket);
  let answered = -1;
  let continued = -1;

  socket.read = (size?: number) => {
    const chunk: Buffer | null = read(size);
    // an answer starts with the first bytes after those of a request
    if (chunk === null || socket.bytesWritten === answered) return chunk;
    const skipped = lengthOfContinues(chunk);
    if (skipped > 0) continued = socket.bytesWritten;
    if (skipped === chunk.length) return null;
    answered = socket.bytesWritten;
    return skipped === 0 ? chunk : chunk.subarray(skipped);
  };
  return () => socket.bytesWritten === continued;
}
