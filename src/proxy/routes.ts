import { GatewayError } from '../errors.ts';
import type { OperationTable, RelayOperation } from '../http/operation.ts';
import { mayCall } from './allowed-models.ts';
import { endpoints } from './endpoint.ts';
import type { ModelList } from './model-list.ts';
import type { Relay } from './relay/relay.ts';

/** The model endpoints: relays, and the list of models. */
export function modelOperations(relay: Relay, models: ModelList) {
  const to = (operationId: keyof typeof endpoints): RelayOperation => ({
    relay: (request, res) => relay(endpoints[operationId], request, res),
  });

  return {
    createChatCompletion: to('createChatCompletion'),
    createCompletion: to('createCompletion'),
    createResponse: to('createResponse'),
    countResponseInputTokens: to('countResponseInputTokens'),
    compactResponse: to('compactResponse'),
    createImage: to('createImage'),
    createImageEdit: to('createImageEdit'),
    createImageVariation: to('createImageVariation'),
    createEmbedding: to('createEmbedding'),
    createModeration: to('createModeration'),
    createSpeech: to('createSpeech'),
    createTranscription: to('createTranscription'),
    createTranslation: to('createTranslation'),
    listModels: {
      databaseWait: null,
      async handle({ principal }) {
        const data = (await models.all()).filter(({ id }) => mayCall(principal, id));
        return { status: 200, body: { object: 'list', data } };
      },
    },
    retrieveModel: {
      databaseWait: null,
      async handle({ principal, params }) {
        const model = mayCall(principal, params.model) ? await models.find(params.model) : undefined;
        if (model) return { status: 200, body: model };
        throw new GatewayError(
          'model_not_found',
          `The model '${params.model}' does not exist; GET /v1/models lists those that do`,
          { param: 'model' },
        );
      },
    },
  } satisfies Partial<OperationTable>;
}
