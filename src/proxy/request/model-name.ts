import { GatewayError } from '../../errors.ts';

/** The longest name of a model that is stored and matched. Characters, as openapi.yaml says it. */
const nameLimit = 256;

/**
 * Checks the length of a model's name as it stands in the body: the value that is validated against openapi.yaml has `…` in
 * place of long strings. Pure.
 * @throws GatewayError `invalid_value`
 */
export function checkModelName(model: string | undefined): void {
  if (model === undefined || model.length <= nameLimit) return;
  if (model.length <= 2 * nameLimit && [...model].length <= nameLimit) return;
  throw modelNameTooLong();
}

/** The same error, for code that knows the length without reading the name. */
export function modelNameTooLong(): GatewayError {
  const message = `model: must be a string of 1 to ${nameLimit} characters`;
  return new GatewayError('invalid_value', message, { param: 'model' });
}
