import type { IncomingMessage, ServerResponse } from 'node:http';

/** An unwanted body announced to be no longer than this is read and thrown away, and the connection lives on. */
const drainedBytes = 1024 * 1024;
/** A piece of an unwanted body counts as so many bytes at least: reading it costs as much. */
const bytesPerPiece = 4 * 1024;
/** Of a longer one so many bytes are taken, for so many milliseconds, so that the client reads its answer before the connection ends. */
const lingeringBytes = 64 * 1024 * 1024;
const lingeringTime = 5_000;

/** Whether the request says that a body follows (RFC 9112, section 6). */
export function announcesBody(req: IncomingMessage): boolean {
  return announcedLength(req) > 0;
}

/** In bytes; a chunked body does not say. */
function announcedLength(req: IncomingMessage): number {
  if (req.headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(req.headers['content-length'] ?? 0);
}

/**
 * Ends the answer once the rest of the body has come, or enough of it. Ending at once would reset the connection
 * under a client that is still sending, and the answer would be lost with it (RFC 9112, section 9.6).
 */
function endAfterBody(req: IncomingMessage, res: ServerResponse): void {
  const end = (): void => {
    clearTimeout(timer);
    req.off('data', count);
    res.end();
  };
  let left = lingeringBytes;
  const count = (chunk: Buffer): void => {
    left -= Math.max(chunk.length, bytesPerPiece);
    if (left < 0) end();
  };
  const timer = setTimeout(end, lingeringTime);
  req.on('data', count);
  req.resume();
  req.once('end', end);
  req.once('close', end);
}

/**
 * Sends an answer that is complete in `text` while the request's body may still be on its way, so that the connection
 * is either fit for the next request or closed.
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
