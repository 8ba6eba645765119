import { createModelGateway, GatewayError } from 'express-model-gateway';
import { verifySignature } from 'express-model-gateway/receiver';

const refused = await createModelGateway({}).catch((error) => error);
console.log(refused instanceof GatewayError, refused.code, typeof verifySignature);
