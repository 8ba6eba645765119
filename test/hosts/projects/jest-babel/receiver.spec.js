/** @jest-environment jsdom */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { webhookReceiver } from 'express-model-gateway/receiver';

test('a receiver in a test of pages, where a Buffer is no instance of Uint8Array', async () => {
  const [body, secret] = ['{"type":"credits.low"}', 'a-long-enough-secret'];
  const bytes = Buffer.from(body);
  expect(bytes instanceof Uint8Array).toBe(false);
  const receiver = webhookReceiver({ secret, onEvent() {} });
  const server = createServer((req, res) => receiver(Object.assign(req, { rawBody: bytes }), res, () => res.end()));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
  const headers = { 'x-service-signature': signature };
  const delivery = request({ port: server.address().port, method: 'POST', headers, agent: false }).end(body);
  const [answer] = await once(delivery, 'response');
  answer.resume();
  await once(server.close(), 'close');
  expect(answer.statusCode).toBe(200);
});
