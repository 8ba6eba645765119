import { createModelGateway, GatewayError, type ModelGateway } from 'express-model-gateway';
import { verifySignature, webhookReceiver } from 'express-model-gateway/receiver';

export async function open(): Promise<ModelGateway | string> {
  try {
    // @ts-expect-error a gateway has no such option
    return await createModelGateway({ mongo: 'mongodb://127.0.0.1/none', secretKeys: [], colour: 'red' });
  } catch (error) {
    return error instanceof GatewayError ? error.code : 'unknown';
  }
}

export const receive = webhookReceiver({ secret: 'a-long-enough-secret', onEvent: ({ id }) => id });
export const isRight: boolean = verifySignature('{}', 'sha256=', 'a-long-enough-secret');
