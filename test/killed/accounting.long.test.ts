import { randomInt } from 'node:crypto';
import { expect } from 'chai';
import type { AnsweredCall } from '../accounting/credits/crowd.ts';
import { largestEstimate, openScene } from '../accounting/credits/scene.ts';
import { type Ledger, openLedger } from '../accounting/usage/ledger.ts';
import { openUsageRecords } from '../accounting/usage/records.ts';
import { createGateway, newSecretKey } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { events, json, type Script, ScriptedUpstream } from '../support/upstream.ts';
import { describeKills, type KillableProcess, type Row, type Stage } from './harness.ts';
import type { DeadlyCommand } from './killed-process.ts';

/** Where a process can die in the transaction that counts and charges. */
const deadlyCommands: readonly DeadlyCommand[] = [
  { command: 'update', collection: 'gateway_usage' },
  { command: 'update', collection: 'gateway_usage_counters' },
  { command: 'update', collection: 'gateway_usage_periods' },
  { command: 'insert', collection: 'gateway_credit_ledger' },
  { command: 'findAndModify', collection: 'gateway_credit_accounts' },
  { command: 'commitTransaction' },
];

/** What a kill may cost: the 50 ms that records are gathered, and the write of those before; far longer than both. Milliseconds. */
const lastMoments = 10_000;
const users = ['usr_0', 'usr_1'];

/** Accounts with 1,000 micro-credits each, and what counts their usage. */
async function openAccounts({ defer }: Stage) {
  const database = await freshDatabase();
  defer(database.drop);
  const ledger = await openLedger(database.connection);
  for (const userId of users) await ledger.credits.topUp({ userId, credits: 0.001, reference: userId });
  let added = 0;
  return {
    uri: database.uri,
    ledger,
    counted: () => ledger.usage.countDocuments({ counted: true }),
    /** Adds a hundred records that have ended. */
    async add() {
      const hundred = Array.from({ length: 100 }, (_, i) => ({ userId: `usr_${i % 2}`, inputTokens: added + i }));
      await ledger.add(hundred);
      added += 100;
    },
  };
}

/** Has the successor count what is left, and holds all counts, charges and events of so many records against each other. */
async function expectCountedOnce(ledger: Ledger, records: number): Promise<void> {
  const last = ledger.counter({ perUser: { unit: 'requests', daily: records / 2 } });
  const isCounted = async () =>
    (await last().catch(() => 1)) === 0 && (await ledger.totals()).records.requests >= records;
  await until(isCounted, 50_000, 'all are counted');
  const { records: recorded, ...others } = await ledger.totals();
  expect(recorded.requests).to.equal(records);
  for (const [name, sums] of Object.entries(others)) expect(sums, name).to.deep.equal(recorded);
  const published = (await ledger.published()).map(({ user_id, threshold }) => `${user_id} ${threshold}`);
  expect(published.sort()).to.deep.equal(users.flatMap((userId) => [`${userId} 100`, `${userId} 80`]));
  const told = users.flatMap((userId) => [`${userId} credits.depleted`, `${userId} credits.low`]);
  const balance = 2_000 - recorded.inputTokens;
  expect(await ledger.charged()).to.deep.equal({ entries: records, sum: balance, balances: balance, told });
}

/** Ends calls of the model `short` at once, and goes on and on with others. */
const answer: Script = (res, request) => {
  const { model } = JSON.parse(request.body.toString());
  const script = model === 'short' ? json(200, { choices: [{}] }) : events(Array(2_000).fill({ choices: [{}] }), 20);
  return script(res, request);
};

const rows: Row[] = [
  ...deadlyCommands.map(
    (deadly): Row => ({
      subject: 'usage that is counted and charged',
      killed: `in the transaction, when it has sent ${deadly.command} ${deadly.collection ?? ''}`.trim(),
      holds: 'each record is counted and charged once, each event published once',
      async show(stage) {
        const { uri, ledger, add } = await openAccounts(stage);
        const first = await stage.start({ uri, daily: 100 });
        first.dieOf(deadly);
        await add();
        await add();
        await first.died;
        expect(first.child.signalCode, 'how it ended').to.equal('SIGKILL');
        await expectCountedOnce(ledger, 200);
      },
    }),
  ),

  {
    subject: 'usage that three processes count and charge',
    killed: 'each at another moment',
    holds: 'each record is counted and charged once, each event published once',
    async show(stage) {
      const { uri, ledger, counted, add } = await openAccounts(stage);
      const records = 2_000;
      const processes = await Promise.all([1, 2, 3].map(() => stage.start({ uri, daily: records / 2 })));
      for (let added = 0; added < records; added += 100) {
        const before = await counted();
        await add();
        // the processes count meanwhile
        await until(async () => (await counted()) > before);
        if (added % 800 === 700) await processes.pop()?.kill();
      }
      // where in its transaction each kill met its process is up to chance; the last one has all that is left to do
      await processes.pop()?.kill();
      await expectCountedOnce(ledger, records);
    },
  },

  {
    subject: 'calls',
    killed: 'in the middle of many',
    holds: 'each was inserted as it began, and only the records of calls that began in its last moments are lost',
    async show({ start, defer }) {
      const database = await freshDatabase();
      defer(database.drop);
      const upstream = await ScriptedUpstream.start();
      defer(() => upstream.close());
      const options = { secretKeys: [newSecretKey()], upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] };
      const operator = await createGateway({ ...options, mongo: database.connection });
      defer(() => operator.close());
      const { key } = await operator.keys.create({ userId: 'usr_1' });
      // a record that was not inserted in its batch is written as an upsert, one by one
      const db = database.connection.getClient().db(database.connection.name);
      await db.command({ profile: 1, filter: { ns: `${db.databaseName}.gateway_usage`, 'command.upsert': true } });
      // one that the profiler sees
      const seen = { requestId: 'seen' };
      await db.collection('gateway_usage').updateOne(seen, { $set: seen }, { upsert: true });
      await db.collection('gateway_usage').deleteOne(seen);
      const gateway = await start({ uri: database.uri, options });
      /** When each call reached the upstream, by its request id. */
      const reached = new Map<string, number>();
      upstream.script = (res, request) => {
        reached.set(String(request.headers['x-request-id']), Date.now());
        return answer(res, request);
      };
      let alive = true;
      const callAgainAndAgain = async (model: string): Promise<void> => {
        while (alive) {
          const response = await fetch(`${gateway.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
            body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
          });
          await response.text();
        }
      };
      const models = [...Array(30).fill('long'), ...Array(5).fill('short')];
      const callers = Promise.allSettled(models.map(callAgainAndAgain));
      await upstream.received(150);
      const { usage, sweep } = openUsageRecords(database.connection);
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
      await gateway.kill();
      alive = false;
      await callers;
      await db.command({ profile: 0 });
      expect(await db.collection('system.profile').countDocuments({}), 'upserts').to.equal(1);

      const before = await usage.find().lean();
      const open = before.filter(({ ending }) => ending === null);
      expect(open.length).to.be.at.least(30);
      expect(before.length).to.be.above(open.length);

      // an hour later
      await usage.updateMany({ ending: null }, { startedAt: new Date(Date.now() - 3_600_000) });
      expect(await sweep()).to.equal(open.length);
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
    },
  },

  {
    subject: 'an account that spends through three processes',
    killed: 'one in its calls, one in the transaction that counts and charges',
    holds: 'it is charged once for each record, gets each event once, overdraws within the limit and is then refused',
    async show({ defer }) {
      // the random numbers repeat with the seed, the timing of the processes does not
      const seed = Number(process.env.CROWD_SEED ?? randomInt(2 ** 31));
      console.log(`      seed ${seed}`);
      const database = await freshDatabase();
      defer(database.drop);
      const scene = await openScene(database.uri, seed, 3);
      defer(scene.close);
      const [victim, counting, survivor] = scene.processes as [KillableProcess, KillableProcess, KillableProcess];
      // what each of the two may have had to write when it was killed: all that it has answered since it had written the rest
      const recorded: AnsweredCall[] = [];
      const untilRecorded = async ({ url }: KillableProcess, answeredBy: readonly AnsweredCall[]) => {
        const calls = answeredBy.filter((call) => call.url === url);
        await until(() =>
          scene.balances.expectRecorded(calls).then(
            () => true,
            () => false,
          ),
        );
        recorded.push(...calls);
      };
      const { answered, refused } = await scene.spend(
        {
          afterCalls: 450 + scene.random.below(500),
          async happen(before) {
            await untilRecorded(victim, before);
            await victim.kill();
          },
        },
        {
          afterCalls: 450 + scene.random.below(500),
          async happen(before) {
            await untilRecorded(counting, before);
            counting.dieOf(scene.random.pick(deadlyCommands));
          },
        },
      );
      const ofSurvivor = answered.filter(({ url }) => url === survivor.url);
      await scene.balances.settled(ofSurvivor, 120_000);
      for (const { child } of [victim, counting]) expect(child.signalCode, 'how it ended').to.equal('SIGKILL');
      const left = await scene.balances.expectEven();
      expect(recorded.length, 'calls answered by the two').to.be.above(0);
      await scene.balances.expectRecorded([...ofSurvivor, ...recorded]);
      expect(refused, 'refused').to.be.above(0);
      // what eight clients had under way is charged by estimate, when it is reserved no longer
      expect(left / 1_000_000, 'credits left').to.be.at.least(-8 * largestEstimate);
      // what the dead had reserved comes back, and can be spent until no call fits
      await scene.spendRest(survivor.url);
    },
  },
];

describeKills(rows, 'in turn');
