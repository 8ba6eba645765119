import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Spec } from '../../openapi/spec.ts';
import type { Logger } from '../../options/options.ts';
import { BodyMemory, type BodyReservation } from '../body/body-memory.ts';
import { readForm } from '../body/form/form.ts';
import type { BodyLimits } from '../body/read-body.ts';
import { type RequestBody, takeBody } from '../body/request-body.ts';
import type { ApiRequest } from '../operation.ts';
import { isRelayed, type Route } from '../route.ts';
import { checkKnown, parseQuery, readQuery } from '../validation/query.ts';
import { checkStorableBody } from '../validation/storable-body.ts';
import { CheckedRequest, type RequestHead } from './checked-request.ts';
import type { OpenRequests } from './open-requests.ts';
import { requestChecks } from './request-checks.ts';
import { searchOf } from './target.ts';

/** Reads, parses and validates the rest of a request. */
export type ReadRequest = (req: IncomingMessage, res: ServerResponse, request: RoutedRequest) => Promise<ApiRequest>;

/** What a request is for, and who makes it. */
interface RoutedRequest {
  readonly route: Route;
  readonly head: RequestHead;
}

/** What {@link createRequestReader} needs. */
export interface RequestReaderDependencies {
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
  const { shapeOf, checkForm, isValid, removeAbsentNulls, validate } = await requestChecks(deps.spec, deps.routes);
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
      return await takeBody(req, {
        route,
        limits,
        reservation,
        openRequests,
        shape: shapeOf(route),
        onReserialised,
      });
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
    const { params } = head;
    const { headers } = req;
    // what is relayed goes up as it came: a provider may know parameters that appear twice
    const query = relayed ? readQuery(req.url ?? '') : parseQuery(req.url ?? '');
    const search = searchOf(req);
    // an operation takes JSON or a form
    const form =
      relayed && value === undefined && raw.length > 0 ? await readForm(raw, headers['content-type'] ?? '') : undefined;

    if (!relayed) {
      checkStorableBody(value);
      checkKnown(query, route.query);
    }
    if (form) checkForm(route, form);
    else {
      const isSure = () => isValid(route, value, headers);
      // a valid body has no null that stands for an absent field
      const isKnownValid = isSure() || (removeAbsentNulls(route, value) && isSure());
      if (!isKnownValid) await validate(req, route, { params, query: relayed ? {} : query, body: value });
    }
    return new CheckedRequest(head, { query, search, headers, body: form ? { ...body, form } : body, reservation });
  };
}
