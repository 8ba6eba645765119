import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { createUsageModel } from '../../../src/accounting/model.ts';
import { createUsageService } from '../../../src/accounting/usage-writer.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { until } from '../../support/until.ts';
import { events, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const processScript = fileURLToPath(new URL('./relaying-process.ts', import.meta.url));
/** What a kill may cost: the 50 ms that records are gathered, and the write of those before; far longer than both. Milliseconds. */
const lastMoments = 10_000;
const longestCall = 1_000;

/** Ends calls of the model `short` at once, and goes on and on with others. */
const answer: Script = (res, request) => {
  const { model } = JSON.parse(request.body.toString());
  const script = model === 'short' ? json(200, { choices: [] }) : events(Array(2_000).fill({ choices: [{}] }), 20);
  return script(res, request);
};

describe('a gateway that is killed in the middle of its calls', () => {
  it('loses only the records of calls that began in its last moments', async function () {
    this.timeout(90_000);
    const database = await freshDatabase();
    const upstream = await ScriptedUpstream.start();
    const gateway = await forkCompiled(processScript, { mongo: database.uri, baseUrl: upstream.baseUrl });
    try {
      const [url] = await once(gateway, 'message');
      /** When each call reached the upstream, by its request id. */
      const reached = new Map<string, number>();
      upstream.script = (res, request) => {
        reached.set(String(request.headers['x-request-id']), Date.now());
        return answer(res, request);
      };
      let alive = true;
      const callAgainAndAgain = async (model: string): Promise<void> => {
        while (alive) {
          const response = await fetch(`${url}/v1/chat/completions`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
          });
          await response.text();
        }
      };
      const models = [...Array(30).fill('long'), ...Array(5).fill('short')];
      const callers = Promise.allSettled(models.map(callAgainAndAgain));
      await upstream.received(150);
      const usage = createUsageModel(database.connection, 'gateway_');
      // the calls until now are of its last moments until they are recorded, and have reached the upstream
      const settledAt = Date.now();
      await until(async () => {
        const found = await usage.find().lean();
        const ids = new Set(found.map(({ requestId }) => requestId));
        const areRecorded = [...reached].every(([id, at]) => at > settledAt || ids.has(id));
        return (
          areRecorded &&
          found.every(({ requestId, startedAt }) => startedAt.getTime() > settledAt || reached.has(requestId))
        );
      }, lastMoments);
      gateway.kill('SIGKILL');
      alive = false;
      await callers;

      const before = await usage.find().lean();
      const open = before.filter(({ ending }) => ending === null);
      expect(open.length).to.be.at.least(30);
      expect(before.length).to.be.above(open.length);

      // an hour later
      await usage.updateMany({ ending: null }, { startedAt: new Date(Date.now() - 3_600_000) });
      expect(await createUsageService({ usage, logger: silentLogger, longestCall }).sweep()).to.equal(open.length);
      const records = await usage.find().lean();
      const orphans = records.filter(({ ending }) => ending === 'orphaned');
      expect(orphans).to.have.lengthOf(open.length);
      for (const orphan of orphans) expect(orphan).to.include({ estimated: true, outputTokens: 0 });

      const recorded = new Set(records.map(({ requestId }) => requestId));
      expect(recorded.size).to.equal(records.length);
      const lost = [...reached].filter(([id]) => !recorded.has(id));
      for (const [id, at] of lost) expect(at, `${id}, lost`).to.be.above(settledAt);
      // A kill takes back what was sent and not yet read: such a call is recorded, and its upstream never saw it.
      const unseen = before.filter(({ requestId }) => !reached.has(requestId));
      for (const { requestId, startedAt, ending } of unseen) {
        expect(ending, `${requestId}, unseen`).to.equal(null);
        expect(startedAt.getTime(), `${requestId}, unseen`).to.be.above(settledAt);
      }
    } finally {
      gateway.kill('SIGKILL');
      await upstream.close();
      await database.drop();
    }
  });
});
