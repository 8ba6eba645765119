import type { IncomingMessage, ServerResponse } from 'node:http';

/** A body that is not needed is read and dropped up to this length, and its connection is kept. Bytes. */
const drainedBytes = 1024 * 1024;
/** Each chunk of such a body counts as at least this many bytes, because reading it costs as much. */
const bytesPerPiece = 4 * 1024;
/** Of a longer body, this many bytes are read, for this many milliseconds, so that the client gets its answer before the connection closes. */
const lingeringBytes = 64 * 1024 * 1024;
const lingeringTime = 5_000;

/** Whether the request says that a body follows (RFC 9112, section 6). */
export function announcesBody(req: IncomingMessage): boolean {
  return announcedLength(req) > 0;
}

/** In bytes; a chunked body does not announce a length. */
function announcedLength(req: IncomingMessage): number {
  if (req.headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(req.headers['content-length'] ?? 0);
}

/**
 * Ends the answer once the rest of the body has arrived, or enough of it. Ending at once would reset the connection of a
 * client that is still sending, which would lose the answer (RFC 9112, section 9.6).
 */
function endAfterBody(req: IncomingMessage, res: ServerResponse): void {
  const end = (): void => {
    clearTimeout(timer);
    req.off('data', count);
    res.end();
  };
  let remaining = lingeringBytes;
  const count = (chunk: Buffer): void => {
    remaining -= Math.max(chunk.length, bytesPerPiece);
    if (remaining < 0) end();
  };
  const timer = setTimeout(end, lingeringTime);
  req.on('data', count);
  req.resume();
  req.once('end', end);
  req.once('close', end);
}

/**
 * Sends the whole answer `text` while the request's body may still be arriving. Afterwards the connection is either ready
 * for the next request or closed.
 */
export function sendBeforeBody(req: IncomingMessage, res: ServerResponse, text: string): void {
  if (req.complete || announcedLength(req) <= drainedBytes) {
    req.resume();
    res.end(text);
    return;
  }
  res.setHeader('connection', 'close');
  res.write(text);
  endAfterBody(req, res);
}
