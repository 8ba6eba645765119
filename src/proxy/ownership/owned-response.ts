import type { ResponseBody } from '../../outbound/exchange.ts';
import { failure } from '../failure.ts';
import { type HeaderValues, isEncoded } from '../headers.ts';
import { type BackgroundUsage, runsOn } from './background-usage.ts';
import { recordedBody } from './recorded-body.ts';
import { shownItems } from './shown-items.ts';
import type { StoredObject, StoredObjects } from './stored-objects.ts';

/** A background response that was asked for. */
export interface AskedInBackground {
  readonly usage: BackgroundUsage;
  /** Called when its record is stored, if it runs on after the answer. */
  readonly onRunning: (id: string) => void;
}

/** The parts of an answer's body that are used here. */
type Body = Pick<ResponseBody, 'flowTo' | 'resume' | 'destroy'>;

/**
 * The answer to a call that creates a stored object. Its bytes are passed on once the gateway has stored which account owns
 * the object and, for a background response, that its usage is to be counted. The end of a
 * response is passed on once its items are stored, too.
 * @throws GatewayError `upstream_invalid_response` where the id cannot be read
 */
export function ownedResponse<Response extends { readonly headers: HeaderValues; readonly data: Body }>(
  response: Response,
  object: Omit<StoredObject, 'id'>,
  objects: Pick<StoredObjects, 'add' | 'addItems'>,
  background?: AskedInBackground,
): Omit<Response, 'data'> & { readonly data: Body } {
  if (isEncoded(response.headers)) {
    response.data.destroy();
    throw failure('upstream_invalid_response');
  }
  async function record(id: string, status: unknown): Promise<void> {
    const usage = background && runsOn(status) ? background.usage : undefined;
    const isOwn = await objects.add({ id, ...object, ...(usage && { background: usage }) });
    if (usage && isOwn) background?.onRunning(id);
  }
  const readsStatus = background !== undefined;
  const data = recordedBody(response.data, { kind: object.kind, readsStatus, record });
  return object.kind === 'response'
    ? shownItems({ ...response, data }, 'output', object, objects)
    : { ...response, data };
}
