import type { OperationTable, RelayOperation } from '../../http/operation.ts';
import type { StoredChatList } from './stored-chat-list.ts';
import { storedEndpoints } from './stored-endpoint.ts';
import type { StoredRelay } from './stored-relay.ts';

/** The operations about what upstreams keep. */
export function storedOperations({ relay, list }: { readonly relay: StoredRelay; readonly list: StoredChatList }) {
  const to = (operationId: keyof typeof storedEndpoints): RelayOperation => ({
    relay: (request, res) => relay(storedEndpoints[operationId], request, res),
  });

  return {
    retrieveResponse: to('retrieveResponse'),
    deleteResponse: to('deleteResponse'),
    cancelResponse: to('cancelResponse'),
    listResponseInputItems: to('listResponseInputItems'),
    createConversation: to('createConversation'),
    retrieveConversation: to('retrieveConversation'),
    updateConversation: to('updateConversation'),
    deleteConversation: to('deleteConversation'),
    createConversationItems: to('createConversationItems'),
    listConversationItems: to('listConversationItems'),
    retrieveConversationItem: to('retrieveConversationItem'),
    deleteConversationItem: to('deleteConversationItem'),
    listChatCompletions: { relay: list },
    retrieveChatCompletion: to('retrieveChatCompletion'),
    updateChatCompletion: to('updateChatCompletion'),
    deleteChatCompletion: to('deleteChatCompletion'),
    listChatCompletionMessages: to('listChatCompletionMessages'),
  } satisfies Partial<OperationTable>;
}
