import { expect } from 'chai';
import type { AttemptRef } from '../../../src/deliveries/model.ts';
import { createWebhookBacklog } from '../../../src/deliveries/worker/webhook-backlog.ts';

/** Webhooks with a number are of another account. */
const webhook = (webhookId: string) => ({ webhookId, userId: /\d/.test(webhookId) ? 'usr_2' : 'usr_1' });

describe('The backlog', () => {
  /** A backlog over deliveries in memory; what is claimed is held until the test lets it go. */
  function start(due: Record<string, number>, places: number, inAll = 1_000, ofAccount = 1_000) {
    const left = new Map(Object.entries(due));
    const held = new Map<string, number>();
    const looks: Record<string, number>[] = [];
    const claimed: string[] = [];
    const errors: unknown[] = [];
    let broken = false;
    const heldOf = (which: (one: [string, number]) => boolean) =>
      [...held].filter(which).reduce((sum, [, count]) => sum + count, 0);
    const room = (webhookId: string) => places - (held.get(webhookId) ?? 0);
    const backlog = createWebhookBacklog({
      due: {
        async ofWebhooks(shares) {
          if (broken) throw new Error('no primary');
          looks.push(Object.fromEntries(shares));
          return [...shares].flatMap(([webhookId, share]) =>
            Array.from({ length: Math.min(share, left.get(webhookId) ?? 0) }, (_, n): AttemptRef => {
              return {
                deliveryId: `${webhookId}-${(left.get(webhookId) ?? 0) - n}`,
                ...webhook(webhookId),
                attempt: 1,
              };
            }),
          );
        },
      },
      wanted: ({ webhookId }) => room(webhookId),
      wantedOf: (userId) => ofAccount - heldOf(([webhookId]) => webhook(webhookId).userId === userId),
      wantedInAll: () => inAll - heldOf(() => true),
      async claim({ webhookId, deliveryId }) {
        const { userId } = webhook(webhookId);
        if (room(webhookId) <= 0 || ofAccount <= heldOf(([id]) => webhook(id).userId === userId)) return false;
        held.set(webhookId, (held.get(webhookId) ?? 0) + 1);
        left.set(webhookId, (left.get(webhookId) ?? 0) - 1);
        claimed.push(deliveryId);
        return true;
      },
      onError: (error) => errors.push(error),
    });
    return {
      backlog,
      looks,
      errors,
      claimed: () => claimed.map((id) => id.split('-')[0]),
      free(webhookId: string, count: number) {
        held.set(webhookId, (held.get(webhookId) ?? 0) - count);
        backlog.draw(webhook(webhookId));
        backlog.drawOthers();
      },
      breaks(now: boolean) {
        broken = now;
      },
      settle: () => new Promise((resolve) => setTimeout(resolve, 5)),
    };
  }

  it('claims for each webhook what it has room for, however much another one has due', async () => {
    const { backlog, claimed, looks, settle } = start({ hanging: 10_000, healthy: 3 }, 2);
    backlog.add('hanging', 'usr_1');
    backlog.add('healthy', 'usr_1');
    await settle();

    expect(claimed().sort()).to.deep.equal(['hanging', 'hanging', 'healthy', 'healthy']);
    expect(looks.length).to.be.below(3);
  });

  it('continues when places are freed, and does not query a webhook that has nothing left', async () => {
    const { backlog, claimed, looks, free, settle } = start({ a: 3 }, 2);
    backlog.add('a', 'usr_1');
    await settle();
    free('a', 2);
    await settle();
    expect(claimed()).to.have.length(3);
    const before = looks.length;
    free('a', 1);
    await settle();

    expect(looks).to.have.length(before);
  });

  it('serves webhooks in turn when there is room for few', async () => {
    const { backlog, looks, free, settle } = start({ a: 5, b: 5, c: 5 }, 2, 2);
    for (const webhookId of ['a', 'b', 'c']) backlog.add(webhookId, 'usr_1');
    await settle();
    free('a', 2);
    await settle();
    free('b', 1);
    await settle();
    free('c', 1);
    await settle();

    expect(looks).to.deep.equal([{ a: 2 }, { b: 1, c: 1 }, { a: 1 }, { b: 1 }]);
  });

  it('continues with other webhooks when one that has nothing left frees room', async () => {
    const { backlog, looks, free, settle } = start({ a: 2, b: 5 }, 3, 3);
    backlog.add('a', 'usr_1');
    await settle();
    backlog.add('b', 'usr_1');
    await settle();
    free('a', 2);
    await settle();

    expect(looks).to.deep.equal([{ a: 3 }, { b: 1 }, { b: 2 }]);
  });

  it('divides the room evenly', async () => {
    const { backlog, looks, free, settle } = start({ a: 50, b: 50, c: 50 }, 10, 11);
    backlog.add('a', 'usr_1');
    await settle();
    for (const webhookId of ['b', 'c']) backlog.add(webhookId, 'usr_1');
    await settle();
    free('a', 10);
    await settle();

    expect(looks.slice(1, 3)).to.deep.equal([{ b: 1 }, { a: 4, c: 3, b: 3 }]);
  });

  it('claims no more for an account than its share, and serves its webhooks in turn', async () => {
    const { backlog, claimed, looks, free, settle } = start({ a: 5, b: 5, c: 5, b1: 5 }, 4, 1_000, 3);
    for (const webhookId of ['a', 'b', 'c']) backlog.add(webhookId, 'usr_1');
    backlog.add('b1', 'usr_2');
    await settle();
    expect(claimed().sort()).to.deep.equal(['a', 'a', 'a', 'b1', 'b1', 'b1']);
    const before = looks.length;
    free('a', 1);
    await settle();

    expect(looks.slice(before), 'one place, and the next webhook of its account').to.deep.equal([{ b: 1 }]);
  });

  it('queries the webhooks of many accounts together, however many one account has', async () => {
    const many = Array.from({ length: 300 }, (_, i) => [`w${String.fromCharCode(97 + (i % 26))}${'x'.repeat(i)}`, 9]);
    const { backlog, looks, settle } = start({ ...Object.fromEntries(many), b1: 9 }, 1);
    for (const [webhookId] of many) backlog.add(String(webhookId), 'usr_1');
    backlog.add('b1', 'usr_2');
    await settle();

    expect(Object.keys(looks[1] ?? {}).slice(0, 3)).to.include('b1');
    expect(Object.keys(looks[0] ?? {}).length).to.be.at.most(100);
  });

  it('learns the account of a webhook from the first query, and respects its share after that', async () => {
    const { backlog, claimed, looks, settle } = start({ a: 9, b: 9, c: 9 }, 9, 1_000, 4);
    for (const webhookId of ['a', 'b', 'c']) backlog.add(webhookId);
    await settle();

    expect(looks[0]).to.deep.equal({ a: 2 });
    expect(claimed()).to.have.length(4);
    const before = looks.length;
    backlog.add('a');
    await settle();
    expect(looks, 'nothing is wanted of the account').to.have.length(before);
  });

  it('queries a webhook again when more became due meanwhile', async () => {
    const { backlog, looks, settle } = start({ a: 1 }, 5);
    backlog.add('a', 'usr_1');
    backlog.add('a', 'usr_1');
    await settle();
    backlog.add('a', 'usr_1');
    await settle();

    expect(looks.length).to.be.within(2, 6);
  });

  it('reports an error, and starts again with the next sweep', async () => {
    const { backlog, claimed, errors, breaks, settle } = start({ a: 1 }, 5);
    breaks(true);
    backlog.add('a', 'usr_1');
    await settle();
    expect(errors).to.have.length(1);
    breaks(false);
    backlog.add('a', 'usr_1');
    await settle();

    expect(claimed()).to.deep.equal(['a']);
  });

  it('claims nothing after it is closed', async () => {
    const { backlog, claimed, settle } = start({ a: 1 }, 5);
    await backlog.close();
    backlog.add('a', 'usr_1');
    await settle();

    expect(claimed()).to.deep.equal([]);
  });
});
