import type { ResponseBody } from '../../outbound/exchange.ts';
import { type HeaderValues, isEncoded } from '../headers.ts';
import { AnsweredIds } from './item-ids.ts';
import { itemsBody } from './items-body.ts';
import type { ItemKeeper, StoredObjects } from './stored-objects.ts';

type Body = Pick<ResponseBody, 'flowTo' | 'resume' | 'destroy'>;

/**
 * An answer that shows items: the client gets their last bytes when it is stored that the account has been shown them.
 * @param list the member of the answer that has the items
 */
export function shownItems<Response extends { readonly headers: HeaderValues; readonly data: Body }>(
  response: Response,
  list: 'output' | 'data',
  { userId, upstream, model }: ItemKeeper,
  objects: Pick<StoredObjects, 'addItems'>,
): Omit<Response, 'data'> & { readonly data: Body } {
  if (isEncoded(response.headers)) return response;
  const store = (ids: readonly string[]) => objects.addItems(ids, { userId, upstream, model });
  return { ...response, data: itemsBody(response.data, new AnsweredIds(list), store) };
}
