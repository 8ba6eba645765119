import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { heldMemory } from '../../support/processes/held-memory.ts';
import { createAuthority, selfSigned } from '../../support/servers/certificates.ts';
import { startNameServer } from '../../support/servers/name-server.ts';
import { startRawReceiver } from '../../support/servers/raw-receiver.ts';
import { type DeliveryPath, openDeliveryPath } from './delivery-path.ts';
import { type Certificates, type Misbehaviour, misbehaviours } from './misbehaving-receivers.ts';

const host = 'receiver.example';
/** For attempts that take as long as they may. Milliseconds. */
const deadline = 400;
/** What a busy machine may add to a deadline. Milliseconds. */
const slack = 5_000;
const memoryLimit = 50 * 1024 * 1024;

describe('A receiver that misbehaves', () => {
  const authority = createAuthority();
  const certificates: Certificates = {
    expired: authority.issue({ name: host, notAfter: new Date(Date.now() - 86_400_000) }),
    'of another name': authority.issue({ name: 'other.example' }),
    'self-signed': selfSigned({ name: host }),
  };
  let names: Awaited<ReturnType<typeof startNameServer>>;
  let path: DeliveryPath;
  let shortPath: DeliveryPath;

  before(async () => {
    names = await startNameServer(() => ({ addresses: ['127.0.0.1'] }));
    path = openDeliveryPath({ nameServer: names.address, ca: authority.cert });
    shortPath = openDeliveryPath({ deadline, nameServer: names.address, ca: authority.cert });
  });
  after(async () => {
    await Promise.all([path.close(), shortPath.close()]);
    names.stop();
  });

  async function meet(misbehaviour: Misbehaviour) {
    const { play, certificate, scheme = certificate ? 'https' : 'http', bodySize = 20, untilDeadline } = misbehaviour;
    const receiver = await startRawReceiver(play, certificate && certificates[certificate]);
    try {
      const { post } = untilDeadline ? shortPath : path;
      const outcome = await post(`${scheme}://${host}:${receiver.port}/hook`, Buffer.alloc(bodySize, 'a'));
      return { ...outcome, connections: receiver.connections };
    } finally {
      await receiver.stop();
    }
  }

  for (const misbehaviour of misbehaviours) {
    const { kind, code, untilDeadline = false } = misbehaviour;
    it(`with ${kind} is recorded as ${code}`, async () => {
      const outcome = await meet(misbehaviour);
      expect(outcome.code).to.equal(code);
      expect(outcome.connections).to.equal(1);
      if (untilDeadline) expect(outcome.durationMs).to.be.within(deadline - 10, deadline + slack);
      expect(outcome.response.length).to.be.at.most(1_024);
    });
  }

  it('with a name that changes from a public to a private address is recorded as address_not_allowed', async () => {
    const receiver = await startRawReceiver((socket) => void socket.end('HTTP/1.1 200 OK\r\n\r\n'));
    let flipped = false;
    names.answers(() => ({ addresses: [flipped ? '169.254.169.254' : '127.0.0.1'] }));
    try {
      for (const code of ['delivered', 'address_not_allowed', 'delivered', 'address_not_allowed']) {
        expect((await path.post(`http://flips.example:${receiver.port}/`)).code).to.equal(code);
        flipped = !flipped;
      }
      expect(receiver.connections).to.equal(2);
    } finally {
      names.answers(() => ({ addresses: ['127.0.0.1'] }));
      await receiver.stop();
    }
  });

  it('costs less than 50 MB of memory, with all the others at once', async () => {
    const before = await heldMemory();
    let most = 0;
    const watching = new AbortController();
    const watched = (async () => {
      while (!watching.signal.aborted) {
        most = Math.max(most, await heldMemory());
        // looks again
        await sleep(50);
      }
    })();
    await Promise.all(misbehaviours.map(meet)).finally(() => watching.abort());
    await watched;

    expect(most - before).to.be.below(memoryLimit);
  });
});
