import type { IncomingMessage, ServerResponse } from 'node:http';
import { refuse } from '../errors.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import { type Form, readForm } from './body/form.ts';
import { type BodyLimits, BodyMemory, type BodyReservation } from './body/read-body.ts';
import { type RequestBody, takeBody } from './body/request-body.ts';
import type { ApiRequest } from './operation.ts';
import { type OpenRequests, searchOf } from './request.ts';
import { isRelayed, type Route } from './route.ts';
import { checkStorableBody, requestChecks } from './validation/check-request.ts';
import { notAParameter } from './validation/invalid-request.ts';

/** What is known of a request before its body is read. */
type RequestHead = Pick<ApiRequest, 'requestId' | 'principal' | 'params' | 'client' | 'relayed'>;

/** Reads, parses and validates the rest of a request. */
export type ReadRequest = (
  req: IncomingMessage,
  res: ServerResponse,
  request: { readonly route: Route; readonly head: RequestHead },
) => Promise<ApiRequest>;

/** What {@link createRequestReader} needs. */
interface RequestReaderDependencies {
  readonly spec: Spec;
  readonly routes: readonly Route[];
  readonly relayedLimits: BodyLimits;
  readonly otherLimits: BodyLimits;
  /** Bytes of all bodies held at once. */
  readonly bodyMemory: number;
  readonly openRequests: OpenRequests;
  readonly logger: Logger;
}

/**
 * Makes the function that reads and checks a request. A relayed request may have fields
 * and query parameters that openapi.yaml does not describe, because the provider may know them. Any other request may not.
 */
export async function createRequestReader(deps: RequestReaderDependencies): Promise<ReadRequest> {
  const { openRequests, logger } = deps;
  const { shapeOf, checkForm, check } = await requestChecks(deps.spec, deps.routes);
  const memory = new BodyMemory(deps.bodyMemory);

  let warned = false;
  const onReserialised = (): void => {
    if (warned) return;
    warned = true;
    logger.warn(
      'the host parses bodies before the gateway; express.json({ verify: keepRawBody }) would keep them exact',
    );
  };

  async function take(req: IncomingMessage, route: Route, reservation: BodyReservation): Promise<RequestBody> {
    const limits = isRelayed(route) ? deps.relayedLimits : deps.otherLimits;
    try {
      return await takeBody(req, { route, limits, reservation, openRequests, shape: shapeOf(route), onReserialised });
    } catch (error) {
      // keep nothing of a refused body, however long its answer takes
      reservation.release();
      throw error;
    }
  }

  return async function readRequest(req, res, { route, head }) {
    const relayed = isRelayed(route);
    const reservation = memory.open(head.principal.userId);
    res.once('close', () => reservation.release());
    const body = await take(req, route, reservation);
    const { raw, value } = body;
    const search = searchOf(req);
    const parameters = queryParameters(req);
    // what is relayed goes up as it came: a provider may know parameters that appear twice
    const query = relayed ? Object.fromEntries(parameters) : withoutDuplicates(parameters);
    // an operation takes JSON or a form
    const isForm = relayed && value === undefined && raw.length > 0;
    const form = isForm ? await readForm(raw, req.headers['content-type'] ?? '') : undefined;

    if (!relayed) {
      checkStorableBody(value);
      checkKnown(query, route.query);
    }
    if (form) checkForm(route, form);
    else await check(req, route, { params: head.params, query, body: value });
    return toApiRequest({ ...head, query, search, headers: req.headers }, { ...body, form }, reservation);
  };
}

const noBytes = Buffer.alloc(0);
const noFields: ApiRequest['fields'] = new Map();

function toApiRequest(
  head: RequestHead & Pick<ApiRequest, 'query' | 'search' | 'headers'>,
  { value, raw, fields = noFields, form }: RequestBody & { readonly form: Form | undefined },
  reservation: BodyReservation,
): ApiRequest {
  const request = {
    ...head,
    body: value,
    rawBody: raw,
    fields,
    form,
    // the bytes are free at once, because it refers to none of the arguments that have them
    releaseBody(): void {
      request.rawBody = noBytes;
      request.form = undefined;
      reservation.release();
    },
  };
  return request;
}

/** The parameters in the query. The host's own `query parser` setting does not matter. */
function queryParameters({ url = '' }: IncomingMessage): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start === -1 ? '' : url.slice(start));
}

/** @throws GatewayError `duplicate_parameter` for a parameter that appears twice */
function withoutDuplicates(parameters: URLSearchParams): Record<string, unknown> {
  const query: Record<string, unknown> = Object.create(null);
  for (const [name, value] of parameters) {
    if (name in query) refuse('duplicate_parameter', name, 'appears twice in the query; give it once');
    query[name] = value;
  }
  return query;
}

/**
 * Refuses a query parameter that an operation does not have.
 * @throws GatewayError `unknown_parameter`
 */
function checkKnown(query: Readonly<Record<string, unknown>>, known: readonly string[]): void {
  const unknown = Object.keys(query).find((name) => !known.includes(name));
  if (unknown !== undefined) refuse('unknown_parameter', unknown, notAParameter(known));
}
