import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { GatewayError, refuse } from '../errors.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import { BodyStream } from './body/body-stream.ts';
import { readForm } from './body/form.ts';
import { type BodyBounds, type BodyBuffer, type BodyLimits, checkSize, keptBody, readBody } from './body/read-body.ts';
import type { BodyShape } from './json/body-shape.ts';
import { checkTree, outline, parseJson } from './json/scan.ts';
import type { ApiRequest, FieldRange } from './operation.ts';
import { announcedLength, type OpenRequests, searchOf } from './request.ts';
import { isRelayed, type Route } from './router.ts';
import { checkStorableBody, requestChecks } from './validation/check-request.ts';
import { notAParameter } from './validation/invalid-request.ts';

/** What is known of a request before its body is read. */
type RequestHead = Pick<ApiRequest, 'requestId' | 'principal' | 'params' | 'client' | 'relayed' | 'headers'>;

/** Reads, parses and validates the rest of a request. @param buffer for its body, which whoever made it releases */
export type ReadRequest = (
  req: IncomingMessage,
  route: Route,
  head: RequestHead,
  buffer: BodyBuffer,
) => Promise<ApiRequest>;

/** What {@link createRequestReader} needs. */
interface RequestReaderDependencies {
  readonly spec: Spec;
  readonly routes: readonly Route[];
  readonly relayedLimits: BodyLimits;
  readonly otherLimits: BodyLimits;
  /** Of what goes up as it comes; its time is that between two chunks. */
  readonly streamLimits: BodyLimits;
  readonly openRequests: OpenRequests;
  readonly logger: Logger;
}

/**
 * Makes the function that reads and checks a request. A relayed request may have fields
 * and query parameters that openapi.yaml does not describe, because the provider may know them. Any other request may not.
 */
export function createRequestReader(deps: RequestReaderDependencies): ReadRequest {
  const { openRequests, streamLimits, logger } = deps;
  const { shapes, checkForm, check } = requestChecks(deps.spec, deps.routes);

  let warned = false;
  const onReserialised = (): void => {
    if (warned) return;
    warned = true;
    logger.warn(
      'the host parses bodies before the gateway; express.json({ verify: keepRawBody }) would keep them exact',
    );
  };

  return async function readRequest(req, route, head, buffer) {
    const isRelay = isRelayed(route);
    const { params, headers } = head;
    const limits = isRelay ? deps.relayedLimits : deps.otherLimits;
    const plan = {
      route,
      limits,
      buffer,
      openRequests,
      streamLimits,
      shape: shapes.get(route.description),
      onReserialised,
    };
    const { raw, value, fields = noFields, stream } = await takeBody(req, headers, plan);
    const search = searchOf(req.url ?? '');
    const parameters = new URLSearchParams(search);
    // what is relayed goes up as it came: a provider may know parameters that appear twice
    const query = isRelay ? Object.fromEntries(parameters) : queryOf(parameters);
    const isJson = value !== undefined || raw.length === 0;
    const form = isRelay && !isJson && isForm(headers) ? await readForm(raw, headers['content-type'] ?? '') : undefined;

    if (!isRelay) {
      checkStorableBody(value);
      const unknown = Object.keys(query).find((name) => !route.query.includes(name));
      if (unknown !== undefined) refuse('unknown_parameter', unknown, notAParameter(route.query));
    }
    if (form) checkForm(route, form);
    else if (!stream && isJson) await check(req, route, { params, query, body: value });
    const request = {
      query,
      search,
      body: value,
      rawBody: raw,
      fields,
      form,
      bodyStream: stream,
      // the bytes are free at once, because nothing else here refers to them when it has returned
      releaseBody(): void {
        request.rawBody = noBytes;
        request.form = undefined;
        buffer.release();
      },
      ...head,
    };
    return request;
  };
}

/** Whether a body is a form, and not one text. */
const isForm = (headers: IncomingHttpHeaders): boolean => /^multipart\//i.test(headers['content-type'] ?? '');

const noBytes = Buffer.alloc(0);
const noFields: ApiRequest['fields'] = new Map();

/** The parameters in the query. The host's own `query parser` setting does not matter. @throws GatewayError `duplicate_parameter` */
function queryOf(parameters: URLSearchParams): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  for (const [name, value] of parameters) {
    if (name in query) refuse('duplicate_parameter', name, 'appears twice in the query; give it once');
    query[name] = value;
  }
  return query;
}

/** The body that an operation gets. */
interface RequestBody {
  /** The bytes, decompressed, and of JSON without a byte order mark; empty where there is no body. */
  readonly raw: Buffer;
  /** The parsed JSON; of a relayed body only what openapi.yaml describes. */
  readonly value?: unknown;
  /** Where the described fields of a relayed body stand, by path. */
  readonly fields?: ReadonlyMap<string, FieldRange>;
  /** The body of an operation that takes it as it comes, unless the host has read it. */
  readonly stream?: BodyStream;
}

const noBody: RequestBody = Object.freeze({ raw: noBytes });

/** How the body of an operation is read. */
interface BodyPlan extends BodyBounds {
  readonly route: Route;
  readonly streamLimits: BodyLimits;
  /** Which fields of a relayed body are read. */
  readonly shape: BodyShape | undefined;
  /** Called when the exact bytes are lost, because the host parsed the body without `keepRawBody`. */
  readonly onReserialised: () => void;
}

/**
 * Reads the body of a request, even if the host has read it before, and parses it once.
 * Where an operation takes no body, it is read and dropped under the same limits.
 * @throws GatewayError `missing_required_parameter`, `unsupported_media_type`, `request_too_large`, `request_timeout`,
 * `invalid_encoding`, `invalid_json`, `duplicate_parameter`, `number_not_exact`, `unknown_parameter`, `rate_limit_exceeded`, `overloaded`
 */
async function takeBody(req: IncomingMessage, headers: IncomingHttpHeaders, plan: BodyPlan): Promise<RequestBody> {
  const { route, shape, buffer } = plan;
  const takesBody = route.mediaTypes.size > 0;
  const missing = (): RequestBody => {
    if (route.bodyRequired) throw new GatewayError('missing_required_parameter', 'This request needs a body');
    return noBody;
  };

  if (announcedLength(headers) === 0) return missing();
  if (!takesBody && req.readableDidRead) return noBody;
  const mediaType = takesBody ? bodyMediaType(headers, route.mediaTypes) : '';
  const rawBody = keptBody(req);
  const isRead = rawBody !== undefined || req.readableDidRead;
  if (!isRead && 'streamsUp' in route.operation && route.operation.streamsUp) {
    return { raw: noBytes, stream: new BodyStream(req, headers, plan.streamLimits) };
  }
  const bytes = isRead ? (rawBody ?? serialiseAgain(req, plan)) : await readBody(req, headers, plan);
  if (isRead) buffer.reserve(bytes.length);
  checkSize(bytes.length, plan.limits);
  if (!takesBody) return noBody;
  if (bytes.length === 0) return missing();
  if (mediaType !== 'application/json') return { raw: bytes };
  // which no sender may add and a reader may ignore (RFC 8259, section 8.1); upstreams refuse it
  const hasMark = bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark);
  const raw = hasMark ? bytes.subarray(byteOrderMark.length) : bytes;
  if (raw.length === 0) return missing();
  if (!shape) return { raw, value: parseJson(raw) };
  const { value, fields } = await outline(raw, shape);
  return { raw, value, fields };
}

/** Serialises again what the host has parsed; the bytes may differ from those that were sent. */
function serialiseAgain({ body }: IncomingMessage & { readonly body?: unknown }, { onReserialised }: BodyPlan): Buffer {
  if (body === undefined) {
    throw new Error('the host has read the body and left nothing of it: mount the gateway before what reads it');
  }
  onReserialised();
  if (Buffer.isBuffer(body)) return body;
  if (typeof body === 'string') return Buffer.from(body);
  checkTree(body);
  return Buffer.from(JSON.stringify(body));
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** JSON is UTF-8 (RFC 8259, section 8.1), which includes ASCII. */
const jsonCharsets: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii']);

/**
 * The media type of the body, in lower case and without its parameters.
 * @throws GatewayError `unsupported_media_type` when there is none, when it is none of those the operation takes,
 * and for JSON that is not UTF-8
 */
function bodyMediaType(headers: IncomingHttpHeaders, accepted: ReadonlySet<string>): string {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').split(';');
  const mediaType = type.trim().toLowerCase();
  if (!accepted.has(mediaType)) {
    const expected = [...accepted].join(' or ');
    throw new GatewayError('unsupported_media_type', `The body must be sent with Content-Type: ${expected}`);
  }
  const isCharset = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i;
  const charset = parameters.map((parameter) => isCharset.exec(parameter)?.[1]).find((found) => found !== undefined);
  if (mediaType === 'application/json' && charset !== undefined && !jsonCharsets.has(charset.toLowerCase())) {
    throw new GatewayError('unsupported_media_type', 'JSON must be UTF-8; leave out the charset of Content-Type');
  }
  return mediaType;
}
