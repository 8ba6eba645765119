import type { ResponseBody } from '../../outbound/response-body.ts';
import { failure } from '../failure.ts';
import { type HeaderValues, isEncoded } from '../headers.ts';
import { recordedBody } from './recorded-body.ts';
import type { StoredObject, StoredObjects } from './stored-objects.ts';

/** The body of an answer, as far as it is read here. */
type Body = Pick<ResponseBody, 'takeWhole' | 'flowTo' | 'resume' | 'destroy'>;

/**
 * The answer to a call that creates a stored object. Its bytes come when it is stored whose that is.
 * @throws GatewayError `upstream_invalid_response` where the id cannot be read
 */
export function ownedResponse<Response extends { readonly headers: HeaderValues; readonly data: Body }>(
  response: Response,
  object: Omit<StoredObject, 'id'>,
  objects: Pick<StoredObjects, 'add'>,
): Omit<Response, 'data'> & { readonly data: Body } {
  if (isEncoded(response.headers)) {
    response.data.destroy();
    throw failure('upstream_invalid_response');
  }
  const record = (id: string): Promise<void> => objects.add({ id, ...object });
  return { ...response, data: recordedBody(response.data, { kind: object.kind, record }) };
}
