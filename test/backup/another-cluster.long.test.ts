import { expect } from 'chai';
import { createModelGateway, GatewayError, type ModelGateway } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { Publisher, type } from './publisher.ts';
import { startTwoClusters, type TwoClusters } from './two-clusters.ts';

const secretKeys = [newSecretKey()];
/** The first attempts of so many events fail. */
const failures = 100;
/** When the attempts come that follow them: after the move has begun. Milliseconds. */
const retryDelay = 10_000;
/** After an election, docs/operating.md says, all goes on within so many milliseconds. */
const longestPause = 10_000;

describe('A gateway whose database moves to another cluster under load', function () {
  this.timeout(180_000);
  let clusters: TwoClusters;
  let receiver: TestReceiver;
  let gateway: ModelGateway;
  const opened: ModelGateway[] = [];
  const publisher = new Publisher();

  async function openGateway(mongo: string): Promise<ModelGateway> {
    const one = await createModelGateway({
      ...loopbackOptions,
      mongo,
      secretKeys,
      retryDelays: [retryDelay, retryDelay],
    });
    opened.push(one);
    await one.start();
    return one;
  }

  before(async () => {
    clusters = await startTwoClusters();
    gateway = await openGateway(clusters.oldUri);
    receiver = await startReceiver(...Array.from({ length: failures }, () => 500), 200);
    await gateway.webhooks.create('usr_1', { url: receiver.url, events: [type] });
    publisher.start(gateway, 4);
    await publishMore();
  });
  after(async () => {
    await publisher.stop();
    await Promise.all(opened.map((one) => one.close()));
    await receiver?.stop();
    await clusters?.stop();
  });

  /** Resolves when the publisher has got a hundred answers more. */
  async function publishMore(): Promise<void> {
    const size = publisher.answered.size + 100;
    await until(() => publisher.answered.size > size);
  }
  const countIn = async (hosts: readonly string[], state: string) => {
    const states = await clusters.states();
    return hosts.filter((host) => states.get(host) === state).length;
  };

  it('goes on meanwhile, although its URI names only members that are removed', async () => {
    const { reconfigure } = clusters;
    const [old, fresh] = [clusters.old.map(({ host }) => host), clusters.fresh.map(({ host }) => host)];
    for (const [i, host] of fresh.entries()) {
      await reconfigure((members) => [...members, { _id: old.length + i, host, priority: 0, votes: 0 }]);
    }
    await until(async () => (await countIn(fresh, 'SECONDARY')) === fresh.length, 60_000);
    for (const host of fresh) {
      await reconfigure((members) =>
        members.map((member) => (member.host === host ? { ...member, priority: 2, votes: 1 } : member)),
      );
    }
    await until(async () => (await countIn(fresh, 'PRIMARY')) === 1, 60_000, 'one of the new members is primary');
    await publishMore();
    const [last = '', ...others] = old;
    const remove = (host: string) => reconfigure((members) => members.filter((member) => member.host !== host));
    for (const host of others) await remove(host);

    // one member that the URI names is still there, and the driver learns of the others from it
    const late = await openGateway(clusters.oldUri);
    await publisher.publish(late, 'late');
    await remove(last);
    await Promise.all(clusters.old.map((node) => node.stop()));
    await publishMore();
    await publisher.publish(late, 'later');
  });

  it('is started again with a URI that names the new members, and refuses to start with the old one', async () => {
    const refused = await openGateway(clusters.oldUri).catch((error: unknown) => error);
    expect(refused).to.be.instanceOf(GatewayError).and.include({ code: 'invalid_options', param: 'mongo' });
    const next = await openGateway(clusters.freshUri);
    await publisher.stop();
    await gateway.close();
    gateway = next;
  });

  it('loses no event, and delivers each, and no other', async () => {
    for (const key of publisher.refused) publisher.answered.set(key, await publisher.publish(gateway, key));
    const ids = new Map(publisher.answered);
    for (const key of ['late', 'later']) ids.set(key, await publisher.publish(gateway, key));
    const published = [...ids.values()];
    expect(new Set(published).size).to.equal(published.length);
    const listed = async (state: 'pending' | 'failed') =>
      (await gateway.deliveries.list('usr_1', { state, limit: 1 })).deliveries;
    await until(async () => (await listed('pending')).length === 0, 60_000, 'nothing is pending');
    expect(await listed('failed')).to.deep.equal([]);
    const sent = receiver.received.map(({ headers }) => String(headers['webhook-id']));
    expect([...new Set(sent)]).to.have.members(published);
    expect(sent.length, 'retries that were pending are made').to.be.at.least(published.length + failures);
    expect(publisher.longestPause, 'longest time without an answer').to.be.below(longestPause);
  });
});
