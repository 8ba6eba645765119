export { GatewayError } from './errors.ts';
export { createModelGateway } from './gateway.ts';
export { keepRawBody } from './http/body/read-body.ts';
export { hardenServer } from './http/harden-server.ts';
export { scopes } from './http/principal.ts';
export { defaultRetryDelays } from './options/options.ts';
export type * from './public-types.ts';
