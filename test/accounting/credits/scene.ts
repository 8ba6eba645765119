import { expect } from 'chai';
import mongoose from 'mongoose';
import { createRandom } from '../../faults/random.ts';
import { startProcess } from '../../killed/harness.ts';
import { createGateway, newSecretKey } from '../../support/gateway.ts';
import { type AnsweredCall, type CrowdOutcome, callTogether } from './crowd.ts';
import { expectedBalances } from './expected-balances.ts';
import { startMeteredUpstream } from './metered-upstream.ts';

const userId = 'usr_crowd';
/** A call costs some 0.11 credits on average: the account is depleted by about the 1,350th of 2,000. */
const prices = {
  '*': { input: 1_000, cachedInput: 500, output: 4_000 },
  large: { input: 3_000, cachedInput: 300, output: 12_000 },
};
const topUps = { first: 125, second: 25 };
const quota = { daily: 125, monthly: 140, thresholds: [20, 50, 80, 100] };
const credits = { prices, lowThreshold: 60, expectedOutputTokens: 20 };
/** What the dearest call is taken for before it is answered: its 100 bytes by four, and the expected output. Credits. */
export const largestEstimate = (25 * prices.large.input + 20 * prices.large.output) / 1_000_000;

/** Something that is done once, when so many calls have ended. */
export interface Incident {
  readonly afterCalls: number;
  /** @param answered the calls that have been answered so far */
  happen(answered: readonly AnsweredCall[]): unknown;
}

/** Makes one dear call. @returns the status of its answer */
async function callOnce(url: string, key: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'large', messages: [{ role: 'user', content: 'One more?' }] }),
  });
  await response.arrayBuffer();
  return response.status;
}

/** One account, its money, the gateway processes that serve it, and eight clients. */
export async function openScene(uri: string, seed: number, count: number) {
  const random = createRandom(seed);
  const upstream = await startMeteredUpstream(createRandom(seed + 1));
  const connection = await mongoose.createConnection(uri, { serverSelectionTimeoutMS: 60_000 }).asPromise();
  const options = {
    secretKeys: [newSecretKey()],
    upstreams: [{ name: 'metered', baseUrl: upstream.baseUrl }],
    credits,
    quotas: { perUser: { unit: 'credits', daily: quota.daily, monthly: quota.monthly }, thresholds: quota.thresholds },
    limits: { perUser: { requestsPerMinute: 1_000_000 }, perKey: { tokensPerMinute: 1_000_000_000 }, shared: true },
  } as const;
  const till = await createGateway({ ...options, mongo: connection });
  await till.credits?.topUp({ userId, credits: topUps.first, reference: 'first' });
  const { key } = await till.keys.create({ userId });
  const processes = await Promise.all(Array.from({ length: count }, () => startProcess({ uri, options })));
  const balances = expectedBalances(connection, { userId, prices, toppedUp: topUps.first + topUps.second, quota });
  const paidAfter = 100 + random.below(300);
  const pay = () =>
    till.payments.completed({
      paymentId: 'pay_crowd',
      userId,
      amount: 5,
      currency: 'usd',
      creditsAdded: topUps.second,
    });

  return {
    random,
    upstream,
    connection,
    processes,
    balances,
    /** Has eight clients make 250 calls each, while this happens. */
    async spend(...incidents: Incident[]): Promise<CrowdOutcome> {
      const upcoming = incidents.toSorted((a, b) => a.afterCalls - b.afterCalls);
      let paid: Promise<unknown> | undefined;
      const happening: unknown[] = [];
      const outcome = await callTogether({
        clients: 8,
        calls: 250,
        apiKey: key,
        urls: processes.map(({ url }) => url),
        modelOf: (call) => (call % 2 === 0 ? 'large' : 'small'),
        onProgress(ended, answered) {
          while (upcoming[0] && ended >= upcoming[0].afterCalls)
            happening.push(upcoming.shift()?.happen([...answered]));
          if (ended >= paidAfter) paid ??= pay();
          // nobody calls on until it is booked: a balance that was below the threshold by then would fall below it twice
          return paid;
        },
      });
      await Promise.all(happening);
      const { answered, refused, putOff, broken } = outcome;
      console.log(`      answered ${answered.length} · refused ${refused} · put off ${putOff} · broken ${broken}`);
      return outcome;
    },
    /** Makes calls at one process, eight at once, until no call fits what is left: then each is refused, and none is made. */
    async spendRest(url: string): Promise<void> {
      for (let made = -1; made < upstream.requests.length; ) {
        made = upstream.requests.length;
        const statuses = await Promise.all(Array.from({ length: 8 }, () => callOnce(url, key)));
        if (upstream.requests.length === made) expect(statuses).to.deep.equal(Array(8).fill(402));
      }
    },
    async close() {
      await Promise.all(processes.map((process) => process.kill()));
      await till.close();
      await connection.close();
      await upstream.close();
    },
  };
}
