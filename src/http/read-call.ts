import type { IncomingMessage } from 'node:http';
import type { Logger } from '../options.ts';
import type { Spec } from '../spec.ts';
import { type Caller, CheckedCall } from './checked-call.ts';
import type { Call } from './operation.ts';
import { createPlainlyValid } from './plainly-valid.ts';
import { checkKnown, parseQuery } from './query.ts';
import type { BodyLimits } from './read-body.ts';
import { takeBody } from './request-body.ts';
import { isRelayed, type Route } from './routes.ts';
import { checkStorable } from './storable.ts';
import { createValidator } from './validate.ts';

/** Reads, parses and validates the rest of a request. */
export type ReadCall = (req: IncomingMessage, route: Route, caller: Caller) => Promise<Call>;

/** What {@link createCallReader} needs. */
export interface CallReaderDependencies {
  readonly spec: Spec;
  readonly routes: readonly Route[];
  readonly relayedLimits: BodyLimits;
  readonly otherLimits: BodyLimits;
  readonly logger: Logger;
}

/** Whether an operation takes nothing but forms, which the validator does not judge. */
function isUploadOnly({ mediaTypes }: Route): boolean {
  return mediaTypes.size > 0 && !mediaTypes.has('application/json');
}

/** Of what is not relayed, only this is called as often. */
const isPublishing = ({ scope }: Route) => scope === 'events:publish';

/**
 * Makes the function that turns a request into a checked call. What is relayed may have fields that openapi.yaml does not
 * know, and any query, for the provider may know them; anything else may not. An upload is the provider's to judge.
 */
export async function createCallReader(deps: CallReaderDependencies): Promise<ReadCall> {
  const { spec, routes, logger } = deps;
  const relayedRoutes = routes.filter((route) => isRelayed(route) && !isUploadOnly(route));
  const others = routes.filter((route) => !isRelayed(route));
  const isPlainlyValid = createPlainlyValid(spec, [...relayedRoutes, ...others.filter(isPublishing)]);
  const validateRelayed = await createValidator(spec, relayedRoutes);
  const validateOthers = await createValidator(spec, others);

  let warned = false;
  const onReserialised = (): void => {
    if (warned) return;
    warned = true;
    logger.warn(
      'the host parses bodies before the gateway; express.json({ verify: keepRawBody }) would keep them exact',
    );
  };

  return async function readCall(req, route, caller) {
    const relayed = isRelayed(route);
    const limits = relayed ? deps.relayedLimits : deps.otherLimits;
    const body = await takeBody(req, route, limits, onReserialised);
    const { raw, text, value } = body;
    const { params } = caller;
    const { headers } = req;
    const query = parseQuery(req.url ?? '');

    if (!relayed) {
      if (text !== undefined) checkStorable(text, value);
      checkKnown(query, route.query);
      if (!isPlainlyValid(route, headers, value)) await validateOthers(route, { params, headers, body: value, query });
    } else if ((value !== undefined || raw.length === 0) && !isPlainlyValid(route, headers, value)) {
      await validateRelayed(route, { params, headers, body: value, query: {} });
    }
    return new CheckedCall(caller, query, headers, body);
  };
}
