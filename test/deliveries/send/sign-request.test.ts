import { expect } from 'chai';
import { startReceiver } from '../receiver.ts';
import { openDeliveryPath } from './delivery-path.ts';

describe('The signature of a delivery', () => {
  it('covers the body that is sent, even if an interceptor has changed it', async () => {
    const receiver = await startReceiver(200);
    const path = openDeliveryPath();
    path.interceptors.request.use(async (config) => ({ ...config, data: Buffer.from('{"changed":true}') }));
    try {
      const sign = (body: Buffer) => ({ 'x-service-signature': `of ${body}` });
      await path.post(receiver.url, Buffer.from('{}'), () => true, sign);
      const [{ headers, body }] = (await receiver.count(1)) as [(typeof receiver.received)[number]];
      expect(body.toString()).to.equal('{"changed":true}');
      expect(headers['x-service-signature']).to.equal('of {"changed":true}');
    } finally {
      await path.close();
      await receiver.stop();
    }
  });
});
