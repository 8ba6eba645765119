export { GatewayError } from './errors.ts';
export { createModelGateway } from './gateway.ts';
export { hardenServer } from './http/harden-server.ts';
export { scopes } from './http/principal.ts';
export { keepRawBody } from './http/read-request.ts';
export { defaultRetryDelays } from './options/options.ts';
export type * from './public-types.ts';
