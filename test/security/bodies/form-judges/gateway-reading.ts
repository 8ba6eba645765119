import { createFormCheck, readForm } from '../../../../src/http/body/form.ts';
import type { Route } from '../../../../src/http/router.ts';
import { readMultipartBody } from '../../../../src/proxy/model-body.ts';
import { loadSpec } from '../../../support/openapi.ts';
import type { SentForm } from './judges.ts';

const spec = loadSpec();
const route = { description: spec.paths['/v1/images/edits']?.post } as Route;
const check = createFormCheck(spec, [route]);

/** What the gateway acts on in the form of an image edit. @throws GatewayError when it refuses the form */
export async function readAsGateway({
  type,
  body,
}: SentForm): Promise<{ model: string | undefined; stream: boolean; n: string | undefined }> {
  const form = await readForm(body, type);
  check(route, form);
  const { model, stream } = readMultipartBody(form);
  const n = form.parts.find(({ name }) => name === 'n');
  return { model, stream, n: n && body.toString('utf8', n.start, n.end) };
}
