import type { IncomingMessage } from 'node:http';
import type { Logger } from '../options.ts';
import type { Spec } from '../spec.ts';
import type { Call, Principal } from './operation.ts';
import { checkKnown, parseQuery } from './query.ts';
import type { BodyLimits } from './read-body.ts';
import { takeBody } from './request-body.ts';
import { isRelayed, type Route } from './routes.ts';
import { checkStorable } from './storable.ts';
import { createValidator } from './validate.ts';

/** What is known of a call before anything of it is read. */
export interface Caller {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

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

/**
 * Makes the function that turns a request into a checked call. What is relayed may have fields that openapi.yaml does not
 * know, and any query, for the provider may know them; anything else may not. An upload is the provider's to judge.
 */
export async function createCallReader(deps: CallReaderDependencies): Promise<ReadCall> {
  const { spec, routes, logger } = deps;
  const validateRelayed = await createValidator(
    spec,
    routes.filter((route) => isRelayed(route) && !isUploadOnly(route)),
  );
  const others = routes.filter((route) => !isRelayed(route));
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
    const { raw, text, value } = await takeBody(req, route, limits, onReserialised);
    const query = parseQuery(req.url ?? '');
    const candidate = { params: caller.params, headers: req.headers, body: value };
    const isUpload = text === undefined && raw.length > 0;

    if (!relayed) {
      if (text !== undefined) checkStorable(text, value);
      checkKnown(query, route.query);
      await validateOthers(route, { ...candidate, query });
    } else if (!isUpload) {
      await validateRelayed(route, { ...candidate, query: {} });
    }
    return { ...caller, query, headers: req.headers, body: value, rawBody: raw };
  };
}
