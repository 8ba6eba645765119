import type { IncomingMessage } from 'node:http';

/** Shared between copies of this package in one process, so that one can read what another keeps. */
const rawBodyKey = Symbol.for('express-model-gateway.rawBody');

type Keeping = IncomingMessage & { [rawBodyKey]?: Buffer };

/**
 * Keeps the exact bytes of a body that the host parses before the gateway sees it:
 * `app.use(express.json({ verify: keepRawBody }))`. Without it such a body is serialised again,
 * which loses 64-bit integers and duplicate keys.
 */
export function keepRawBody(req: IncomingMessage, _res: unknown, buf: Buffer): void {
  (req as Keeping)[rawBodyKey] = buf;
}

/** The bytes that {@link keepRawBody} kept. */
export function keptBody(req: IncomingMessage): Buffer | undefined {
  return (req as Keeping)[rawBodyKey];
}
