import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { createUsageModel } from '../../../src/accounting/usage/model.ts';
import { createUsageService } from '../../../src/accounting/usage/service.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { events, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const processScript = fileURLToPath(new URL('./relaying-process.ts', import.meta.url));
/** What a kill may cost: the 50 ms that records are gathered, and the write of those before on a busy machine. */
const lastMoments = 1_500;
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
        reached.set(String(request.headers['x-request-id']), performance.now());
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
      // measures time: what is older than the last moments must not be lost
      await Promise.all([upstream.received(150), sleep(2 * lastMoments)]);
      gateway.kill('SIGKILL');
      const killed = performance.now();
      const killedAt = Date.now();
      alive = false;
      await callers;

      const usage = createUsageModel(database.connection, 'gateway_');
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
      for (const [id, at] of lost) expect(killed - at, `${id}, lost`).to.be.below(lastMoments);
      // A kill takes back what was sent and not yet read: such a call is recorded, and its upstream never saw it.
      const unseen = before.filter(({ requestId }) => !reached.has(requestId));
      for (const { requestId, startedAt, ending } of unseen) {
        expect(ending, `${requestId}, unseen`).to.equal(null);
        expect(killedAt - startedAt.getTime(), `${requestId}, unseen`).to.be.below(lastMoments);
      }
    } finally {
      gateway.kill('SIGKILL');
      await upstream.close();
      await database.drop();
    }
  });
});
