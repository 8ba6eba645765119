import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { eventually, low, type Scene, startScene } from '../deliveries/over-http.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { eventIdOf, storeEnded } from './missed.ts';

const missed = 2_000;
const newPerSecond = 50;
/** New events of one spell, whose p99 is looked at by itself: a moment in which the machine did something else spoils one. */
const perSpell = 125;
const quietSpells = 5;

describe('While 2,000 failed deliveries are recovered', function () {
  this.timeout(180_000);
  let scene: Scene;
  let receiver: TestReceiver;

  before(async () => {
    receiver = await startReceiver(200);
    scene = await startScene({ retryDelays: [] });
  });
  after(async () => {
    await scene.close();
    await receiver.stop();
  });

  it('50 new events a second are delivered with a p99 that is less than doubled', async () => {
    const webhookId = await scene.webhook(receiver.url);
    const publishedAt = new Map<string, number>();

    /** New events at an even pace; resolves to their ids. */
    async function spell(): Promise<string[]> {
      const began = performance.now();
      const publishing: Promise<string>[] = [];
      for (let i = 0; i < perSpell; i += 1) {
        await sleep(Math.max(0, began + (i * 1_000) / newPerSecond - performance.now()));
        const at = performance.now();
        const published = scene.gateway.publish(low).then(({ id }) => {
          publishedAt.set(id, at);
          return id;
        });
        publishing.push(published);
      }
      return Promise.all(publishing);
    }

    await spell(); // until everything is warm
    const quiet: string[][] = [];
    for (let i = 0; i < quietSpells; i += 1) quiet.push(await spell());

    const since = new Date(Date.now() - 3_600_000).toISOString();
    const recovered = await storeEnded(scene.connection, webhookId, Array(missed).fill('failed'));
    const { body } = await scene.call('POST', `/v1/webhooks/${webhookId}/recover`, { since });
    const progress = async () => (await scene.call('GET', `/v1/webhooks/${webhookId}/recoveries/${body.id}`)).body;
    const busy: string[][] = [];
    while ((await progress()).state === 'running') busy.push(await spell());
    const done = await eventually(progress, ({ state }) => state === 'done', 1_000);
    expect(done).to.include({ found: missed, delivered: missed });
    await receiver.count(missed + publishedAt.size);

    const arrivedAt = new Map(receiver.received.map((one) => [eventIdOf(one), one.at]));
    for (const id of recovered) expect(arrivedAt.has(id)).to.equal(true);
    expect(receiver.received).to.have.length(missed + publishedAt.size);
    const p99 = (ids: string[]) => {
      const times = ids.map((id) => (arrivedAt.get(id) ?? Number.NaN) - (publishedAt.get(id) ?? 0));
      return times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] as number;
    };
    const typical = (spells: string[][]) => spells.map(p99).sort((a, b) => a - b)[spells.length >> 1] as number;
    const [without, beside] = [typical(quiet), typical(busy)];
    expect(beside, `p99 ${without.toFixed(1)} ms without, ${beside.toFixed(1)} ms with`).to.be.below(2 * without);
  });
});
