import type { ModelGateway } from './gateway/model-gateway.ts';
import { openGateway } from './gateway/open.ts';
import { fixed } from './options/fixed.ts';
import type { ModelGatewayOptions } from './options/options.ts';
import { resolveOptions } from './options/resolve.ts';

export type { ModelGateway } from './gateway/model-gateway.ts';

/**
 * Builds a gateway: checks the options, opens the database, builds the indexes or checks them, joins the parts.
 * @typeParam Custom the names of the option `eventTypes`
 * @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message
 */
export async function createModelGateway<Custom extends string = never>(
  given: ModelGatewayOptions<Custom>,
): Promise<ModelGateway<Custom>> {
  return openGateway(resolveOptions(given), fixed);
}
