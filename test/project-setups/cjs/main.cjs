const { createModelGateway, GatewayError } = require('express-model-gateway');
const { verifySignature } = require('express-model-gateway/receiver');

createModelGateway({}).catch((refused) => {
  console.log(refused instanceof GatewayError, refused.code, typeof verifySignature);
});
