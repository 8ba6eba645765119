export { GatewayError } from './errors.ts';
export { createModelGateway } from './gateway.ts';
export { keepRawBody } from './http/body/read-body.ts';
export { hardenServer } from './http/harden-server.ts';
export { defaultRetryDelays } from './options/options.ts';
export { scopes } from './options/principal.ts';
export type * from './public-types.ts';
