import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { GatewayError } from '../../../src/index.ts';
import { type LiveGateway, newSecretKey, startGateway } from '../../support/gateway.ts';
import { freshUri } from '../../support/mongo.ts';
import { webhookOperations } from '../../support/spec.ts';

const hostile: readonly [what: string, value: unknown][] = [
  ['an operator', { $ne: null }],
  ['an expression', { $where: 'sleep(1000)' }],
  ['__proto__', JSON.parse('{"__proto__":{"polluted":true}}')],
  ['a NUL', 'pay_a\0b'],
  ['half a surrogate pair', 'pay_\ud83d'],
  ['a field path', '$userId'],
];

interface Envelope {
  readonly data: Record<string, unknown>;
}

const examples = webhookOperations.map(({ path, operation }) => {
  const [example] = Object.values(operation.requestBody?.content['application/json']?.examples ?? {});
  return { type: path, ...(example?.value as Envelope) };
});

describe('bad input to publish', () => {
  let live: LiveGateway;
  let connection: Connection;

  before(async () => {
    connection = await mongoose.createConnection(freshUri()).asPromise();
    live = await startGateway({ mongo: connection, secretKeys: [newSecretKey()] });
  });
  after(async () => {
    await live.close();
    await connection.dropDatabase();
    await connection.close();
  });

  const events = () => connection.collection('gateway_events');
  const refusal = (promise: Promise<unknown>): Promise<GatewayError | null> =>
    promise.then(
      () => null,
      (error) => error,
    );

  for (const { type, data } of examples) {
    const fields = Object.keys(data).filter((name) => typeof data[name] === 'string');
    for (const field of fields) {
      for (const [what, value] of hostile) {
        it(`is refused, or stored unchanged: ${what} as ${field} of ${type}`, async () => {
          const already = await events().countDocuments();
          const sent = { ...data, [field]: value };
          const error = await refusal(live.gateway.publish({ type, userId: 'usr_1', data: sent }));
          if (error) {
            expect(error).to.be.instanceOf(GatewayError);
            expect(error.code).to.equal('invalid_event_data');
            expect(error.param).to.match(new RegExp(`^data\\.${field}`));
            expect(await events().countDocuments()).to.equal(already);
          } else {
            expect(value, 'only text that JSON carries is taken').to.be.a('string');
            const [stored] = await events().find().sort({ _id: -1 }).limit(1).toArray();
            expect(JSON.parse(stored?.body.toString()).data).to.deep.equal(sent);
          }
          expect(({} as { polluted?: unknown }).polluted).to.equal(undefined);
        });
      }
    }
  }

  const { type, data } = examples[0] as (typeof examples)[number];
  for (const [what, value] of hostile.slice(0, 5)) {
    it(`is refused: ${what} as the user id, the type, the idempotency key, a key's user or its name`, async () => {
      const bad = value as string;
      const already = await events().countDocuments();
      for (const attempt of [
        live.gateway.publish({ type, userId: bad, data }),
        live.gateway.publish({ type: bad, userId: 'usr_1', data }),
        live.gateway.publish({ type, userId: 'usr_1', data }, { idempotencyKey: bad }),
        live.gateway.keys.create({ userId: bad }),
        live.gateway.keys.create({ userId: 'usr_1', name: bad }),
        live.gateway.keys.list(bad),
        live.gateway.webhooks.list(bad),
      ]) {
        const error = await refusal(attempt);
        expect(error).to.be.instanceOf(GatewayError);
        expect(error?.status).to.equal(400);
      }
      expect(await live.gateway.keys.revoke(bad)).to.equal(false);
      expect(await live.gateway.keys.get(bad)).to.equal(null);
      expect(await events().countDocuments()).to.equal(already);
    });
  }
});
