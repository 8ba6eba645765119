export { GatewayError } from './errors.ts';
export { createModelGateway } from './gateway.ts';
export { keepRawBody } from './http/body/kept-body.ts';
export { scopes } from './http/principal.ts';
export { hardenServer } from './http/server/harden.ts';
export { defaultRetryDelays } from './options/options.ts';
export type * from './public-types.ts';
