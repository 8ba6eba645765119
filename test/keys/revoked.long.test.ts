import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { type LiveGateway, newSecretKey, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { forkCompiled } from '../support/processes/compiled-script.ts';

const script = fileURLToPath(new URL('./gateway-process.ts', import.meta.url));
const count = 5;

describe('a key that is revoked while another OS process uses it', function () {
  this.timeout(60_000);
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let here: LiveGateway;
  let child: ChildProcess | undefined;
  let there = '';

  before(async () => {
    database = await freshDatabase();
    const secretKey = newSecretKey();
    here = await startGateway({ mongo: database.uri, secretKeys: [secretKey] });
    const process = await forkCompiled(script, { mongo: database.uri, secretKey });
    child = process;
    [there] = await once(process, 'message');
  });
  after(async () => {
    child?.kill('SIGKILL');
    await here?.close();
    await database.drop();
  });

  async function statusThere(key: string): Promise<number> {
    const response = await fetch(`${there}/v1/webhooks`, { headers: { authorization: `Bearer ${key}` } });
    await response.arrayBuffer();
    return response.status;
  }

  /** Uses the key there all the time, revokes it here, and goes on until it is refused. */
  async function tookAfterRevocation(delay: number): Promise<number> {
    const { id, key } = (await here.call('POST', '/v1/api_keys', { name: '', scopes: ['webhooks'] })).body;
    let revokedAt = Number.POSITIVE_INFINITY;
    // measures time: the key is in use by then
    const revoking = sleep(delay).then(async () => {
      expect((await here.call('DELETE', `/v1/api_keys/${id}`)).status).to.equal(200);
      revokedAt = performance.now();
    });
    for (let lastTaken = 0; ; ) {
      const sentAt = performance.now();
      const status = await statusThere(key);
      if (status === 401) {
        await revoking;
        return lastTaken - revokedAt;
      }
      expect(status).to.equal(200);
      lastTaken = sentAt;
      // uses the key again
      await sleep(5);
    }
  }

  it('is refused there for every request that is sent a second or more later', async () => {
    // each at another moment of the time for which it is remembered there
    const delays = Array.from({ length: count }, (_, i) => 1_000 + i * 170);
    const took = await Promise.all(delays.map(tookAfterRevocation));
    for (const one of took) expect(one).to.be.below(1_000);
    expect(await statusThere(here.key)).to.equal(200);
  });
});
