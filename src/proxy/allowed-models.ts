import { GatewayError } from '../errors.ts';
import type { Principal } from '../http/principal.ts';

/** Whether the caller may call this model, by the name that callers use. Pure. */
export function mayCall({ models }: Principal, model: string): boolean {
  return models === undefined || models.includes(model);
}

/**
 * Requires that the caller may call this model. With a key that has a list of models, the call has to name one.
 * @throws GatewayError `model_not_allowed`
 */
export function requireAllowedModel(principal: Principal, model: string | undefined): void {
  if (!principal.models || (model !== undefined && mayCall(principal, model))) return;
  const requestedModel = model === undefined ? 'a call that names no model' : `the model '${model}'`;
  const message = `This API key may not call ${requestedModel}; it may call ${principal.models.join(', ')}`;
  throw new GatewayError('model_not_allowed', message, { param: 'model' });
}
