import type { IncomingMessage } from 'node:http';
import { refuse } from '../errors.ts';
import type { Spec } from '../openapi/spec.ts';
import type { Logger } from '../options/options.ts';
import { readForm } from './body/form.ts';
import type { BodyLimits, BodyReservation } from './body/read-body.ts';
import { type RequestBody, takeBody } from './body/request-body.ts';
import type { ApiRequest } from './operation.ts';
import { type OpenRequests, searchOf } from './request.ts';
import { isRelayed, type Route } from './route.ts';
import { checkStorableBody, requestChecks } from './validation/check-request.ts';
import { notAParameter } from './validation/invalid-request.ts';

/** What is known of a request before its body is read. */
type RequestHead = Pick<ApiRequest, 'requestId' | 'principal' | 'params' | 'client' | 'relayed' | 'headers'>;

/** Reads, parses and validates the rest of a request. @param reservation of the memory for its body, which whoever made it releases */
export type ReadRequest = (
  req: IncomingMessage,
  route: Route,
  head: RequestHead,
  reservation: BodyReservation,
) => Promise<ApiRequest>;

/** What {@link createRequestReader} needs. */
interface RequestReaderDependencies {
  readonly spec: Spec;
  readonly routes: readonly Route[];
  readonly relayedLimits: BodyLimits;
  readonly otherLimits: BodyLimits;
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

  let warned = false;
  const onReserialised = (): void => {
    if (warned) return;
    warned = true;
    logger.warn(
      'the host parses bodies before the gateway; express.json({ verify: keepRawBody }) would keep them exact',
    );
  };

  async function take(
    req: IncomingMessage,
    route: Route,
    { headers }: RequestHead,
    reservation: BodyReservation,
  ): Promise<RequestBody> {
    const limits = isRelayed(route) ? deps.relayedLimits : deps.otherLimits;
    try {
      const plan = { route, limits, reservation, openRequests, shape: shapeOf(route), onReserialised };
      return await takeBody(req, headers, plan);
    } catch (error) {
      // keep nothing of a refused body, however long its answer takes
      reservation.release();
      throw error;
    }
  }

  return async function readRequest(req, route, head, reservation) {
    const relayed = isRelayed(route);
    const { requestId, principal, params, client, headers } = head;
    const { url = '' } = req;
    const { raw, value, fields = noFields } = await take(req, route, head, reservation);
    const search = searchOf(url);
    const parameters = queryParameters(url);
    // what is relayed goes up as it came: a provider may know parameters that appear twice
    const query = relayed ? Object.fromEntries(parameters) : withoutDuplicates(parameters);
    // an operation takes JSON or a form
    const isForm = relayed && value === undefined && raw.length > 0;
    const form = isForm ? await readForm(raw, headers['content-type'] ?? '') : undefined;

    if (!relayed) {
      checkStorableBody(value);
      checkKnown(query, route.query);
    }
    if (form) checkForm(route, form);
    else await check(req, route, { params, query, body: value });
    const request = {
      requestId,
      principal,
      params,
      client,
      relayed: head.relayed,
      query,
      search,
      headers,
      body: value,
      rawBody: raw,
      fields,
      form,
      // the bytes are free at once, because nothing else here refers to them when it has returned
      releaseBody(): void {
        request.rawBody = noBytes;
        request.form = undefined;
        reservation.release();
      },
    };
    return request;
  };
}

const noBytes = Buffer.alloc(0);
const noFields: ApiRequest['fields'] = new Map();

/** The parameters in the query. The host's own `query parser` setting does not matter. */
function queryParameters(url: string): URLSearchParams {
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
