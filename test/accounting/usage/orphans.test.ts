import { expect } from 'chai';
import { startGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

const [minute, hour] = [60_000, 3_600_000];

describe('a call whose record is still open', () => {
  it('counts as orphaned a minute after an hour, also where calls take less: a WebSocket has no such limit', async () => {
    const { connection, drop } = await freshDatabase();
    const records = connection.collection<Record<string, unknown> & { _id: string }>('gateway_usage');
    const open = { requestId: 'req_1', userId: 'usr_1', keyId: null, endpoint: '/responses', model: 'm' };
    const counts = { inputTokens: 1, cachedInputTokens: 0, outputTokens: 0, images: 0, durationMs: 0, estimated: true };
    const startedAt = (age: number) => new Date(Date.now() - age);
    await records.insertMany([
      { _id: 'use_dead', ...open, ...counts, upstream: 'one', ending: null, startedAt: startedAt(hour + 2 * minute) },
      { _id: 'use_live', ...open, ...counts, upstream: 'one', ending: null, startedAt: startedAt(hour - 2 * minute) },
    ]);
    const upstreams = [{ name: 'one', baseUrl: 'http://127.0.0.1:9/v1', timeouts: { total: 1_000 } }];
    const live = await startGateway({ mongo: connection, upstreams });
    const endingOf = async (_id: string) => (await records.findOne({ _id }))?.ending;
    await until(async () => (await endingOf('use_dead')) === 'orphaned');
    expect(await endingOf('use_live')).to.equal(null);
    await live.close();
    await drop();
  });
});
