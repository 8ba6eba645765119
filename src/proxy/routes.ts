import type { OperationTable, RelayOperation } from '../http/operation.ts';
import type { Relay } from './proxy.ts';

/** The model endpoints; each is one relay. */
export function modelOperations(relay: Relay): OperationTable {
  const post = (path: string): RelayOperation => ({
    relay: (call, res) => relay({ method: 'POST', path }, call, res),
  });
  return {
    createChatCompletion: post('/chat/completions'),
    createImage: post('/images/generations'),
    createEmbedding: post('/embeddings'),
    listModels: { relay: (call, res) => relay({ method: 'GET', path: '/models' }, call, res) },
    retrieveModel: {
      relay: (call, res) =>
        relay({ method: 'GET', path: `/models/${encodeURIComponent(call.params.model ?? '')}` }, call, res),
    },
  };
}
