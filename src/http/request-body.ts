import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../errors.ts';
import { keptBody } from './kept-body.ts';
import { bodyMediaType } from './media-type.ts';
import { checkDepth, lookAtJson, parseJson } from './parse-json.ts';
import { type BodyLimits, checkSize, readBody } from './read-body.ts';
import { isRelayed, type Route } from './routes.ts';
import { announcesBody } from './unread-body.ts';

/** A body as an operation gets it. */
export interface RequestBody {
  /** The bytes, decompressed; empty where there is no body. */
  readonly raw: Buffer;
  /** The same as text, for JSON that is not relayed. */
  readonly text?: string;
  /** What it parses to, for JSON; without the long strings of what is relayed. */
  readonly value?: unknown;
  /** Where these stand: start → end, quotes included. */
  readonly longStrings?: ReadonlyMap<number, number>;
}

const noBody: RequestBody = Object.freeze({ raw: Buffer.alloc(0) });

type ParsedByHost = IncomingMessage & { readonly body?: unknown };

/** The bytes of what the host has parsed, as near as they can be had. */
function serialiseAgain(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  if (typeof body === 'string') return Buffer.from(body);
  checkDepth(body);
  return Buffer.from(JSON.stringify(body));
}

/** Takes the body from wherever it is: kept by the host, parsed by it, or still to be read. */
function takeBytes(req: ParsedByHost, limits: BodyLimits, onReserialised: () => void): Buffer | Promise<Buffer> {
  const kept = keptBody(req);
  if (kept) return kept;
  if (!req.readableDidRead) return readBody(req, limits);
  if (req.body === undefined) {
    throw new Error('the host has read the body and left nothing of it: mount the gateway before what reads it');
  }
  onReserialised();
  return serialiseAgain(req.body);
}

/**
 * Reads the body of a request, whoever may have read it before, and parses it once.
 * An operation that takes none has it read and dropped, under the same limits.
 * @param onReserialised told when the exact bytes are gone, because the host parsed the body without `keepRawBody`
 * @throws GatewayError `missing_required_parameter`, `unsupported_media_type`, `request_too_large`, `request_timeout`,
 * `invalid_encoding`, `invalid_json`
 */
export async function takeBody(
  req: IncomingMessage,
  route: Route,
  limits: BodyLimits,
  onReserialised: () => void,
): Promise<RequestBody> {
  const takesBody = route.mediaTypes.size > 0;
  const missing = (): RequestBody => {
    if (route.bodyRequired) throw new GatewayError('missing_required_parameter', 'This request needs a body');
    return noBody;
  };

  if (!announcesBody(req)) return missing();
  if (!takesBody && req.readableDidRead) return noBody;
  const mediaType = takesBody ? bodyMediaType(req, route.mediaTypes) : '';
  const raw = await takeBytes(req, limits, onReserialised);
  checkSize(raw.length, limits);
  if (!takesBody) return noBody;
  if (raw.length === 0) return missing();
  if (mediaType !== 'application/json') return { raw };
  if (isRelayed(route)) {
    const { value, longStrings } = lookAtJson(raw);
    return longStrings ? { raw, value, longStrings } : { raw, value };
  }
  const { text, value } = parseJson(raw);
  return { raw, text, value };
}
