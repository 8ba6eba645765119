import { expect } from 'chai';
import { createDeliveryClient, createSend } from '../../../src/deliveries/send.ts';
import { signatureHeaders } from '../../../src/deliveries/signature.ts';
import { signBody } from '../../support/signature.ts';
import { startReceiver } from '../receiver.ts';

describe('The signature of a delivery', () => {
  it('covers the body that is sent, even if an interceptor has changed it', async () => {
    const receiver = await startReceiver(200);
    const client = createDeliveryClient({ allowAddress: () => true });
    client.interceptors.request.use(async (config) => ({ ...config, data: Buffer.from('{"changed":true}') }));
    const attempt = { eventId: 'evt_1', startedAt: new Date(), secrets: { service: 's', standard: ['s'] } };
    try {
      await createSend(
        client,
        4_000,
      )({
        url: receiver.url,
        headers: { 'content-type': 'application/json' },
        body: Buffer.from('{}'),
        sign: (body) => signatureHeaders(attempt, body),
      });
      const [{ headers, body }] = (await receiver.count(1)) as [(typeof receiver.received)[number]];
      expect(body.toString()).to.equal('{"changed":true}');
      expect(headers['x-service-signature']).to.equal(signBody(body, 's'));
    } finally {
      await client.close();
      await receiver.stop();
    }
  });
});
