import { createModelGateway, scopes } from '../../../src/index.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { DisturbancesSoFar, ParallelLoad, ParallelLoadVerdict } from '../parallel-load.ts';
import type { Random } from '../random.ts';
import type { Workers } from '../workers/workers.ts';
import { type AdmissionEvidence, answerFaults, limitFaults, overdraftFaults } from './admission.ts';
import { type SeenCall, startCalls } from './calls.ts';
import { type AddedCredits, startFunding } from './funding.ts';
import { ledgerFaults, mayBeLost, recordFaults, thresholdFaults, uploadFaults } from './ledger.ts';
import type { ModelUpstream } from './model-upstream.ts';
import {
  accounts,
  costOf,
  dailyQuota,
  largestReservation,
  moneyOptions,
  requestsPerMinute,
  thresholds,
  unrecorded,
} from './options.ts';
import { openRecords } from './records.ts';
import { fileFaults, type SeenUpload, startUploads } from './uploads.ts';

/** What accounts other than `poor` begin with. Credits. */
const plenty = 1_000_000;
/** How long records may take after a row before what is missing counts as lost. Milliseconds. */
const settleWithin = 60_000;
const bounds = { largestReservation, unrecorded, limit: requestsPerMinute };
const users = Object.values(accounts);

export interface MoneyDeps {
  readonly cluster: Cluster;
  readonly workers: Workers;
  readonly upstream: ModelUpstream;
  readonly random: Random;
  readonly secretKey: string;
  readonly slowness: AdmissionEvidence['slowness'];
}

/** Makes the keys of all accounts, and gives credits to those that are to have plenty. */
async function openAccounts({ cluster, upstream, secretKey }: MoneyDeps) {
  const gateway = await createModelGateway({
    mongo: cluster.connection,
    secretKeys: [secretKey],
    ...moneyOptions(upstream.baseUrls),
  });
  const given: AddedCredits[] = [];
  for (const userId of [accounts.rich, accounts.limited]) {
    const sentAt = Date.now();
    await gateway.credits?.topUp({ userId, credits: plenty, reference: 'first' });
    const entryId = `top_up:${JSON.stringify([userId, 'first'])}`;
    given.push({ entryId, userId, amount: plenty * 1_000_000, sentAt, confirmedAt: Date.now() });
  }
  const keyOf = async (userId: string) => (await gateway.keys.create({ userId })).key;
  const keys = {
    rich: await keyOf(accounts.rich),
    poor: await keyOf(accounts.poor),
    limited: await keyOf(accounts.limited),
  };
  const { key: billing } = await gateway.keys.create({ userId: 'usr_billing', scopes });
  await gateway.close();
  return { keys, billing, given };
}

/** Model calls and payments beside the deliveries, with a ledger of their own. What is found wrong is told once. */
export async function createMoney(deps: MoneyDeps): Promise<ParallelLoad> {
  const { cluster, workers, upstream, random, slowness } = deps;
  const { keys, billing, given } = await openAccounts(deps);
  const records = openRecords(cluster.connection);
  const calls: SeenCall[] = [];
  const added: AddedCredits[] = [...given];
  const notes: string[] = [];
  const told = new Set<string>();
  let ofRow: SeenCall[] = [];
  let load: ReturnType<typeof startCalls> | undefined;
  let uploads: ReturnType<typeof startUploads> | undefined;
  let funding: ReturnType<typeof startFunding> | undefined;

  async function faultsOfCalls(evidence: AdmissionEvidence): Promise<string[]> {
    const { ends } = evidence;
    const byRequest = await records.byRequest(users);
    const found: string[] = [];
    for (const call of ofRow) {
      const recorded = {
        call,
        answers: upstream.answers.get(call.id) ?? [],
        records: byRequest.get(call.id) ?? [],
        mayBeLost: mayBeLost(call, evidence),
      };
      const faults = [...recordFaults(recorded), ...answerFaults(call, evidence, bounds)];
      const workerEnd = ends.find(({ pid }) => pid === call.pid);
      found.push(...faults.map((fault) => `${call.account}: ${fault} ${JSON.stringify({ ...call, workerEnd })}`));
    }
    for (const userId of users) {
      const own = [...byRequest.values()].flat().filter((record) => record.userId === userId);
      const ledger = await records.ledgerOf(userId, own);
      found.push(
        ...ledgerFaults(
          ledger,
          added.filter((one) => one.userId === userId),
        ),
      );
      if (userId !== accounts.rich) continue;
      const published = await records.publishedThresholds(userId);
      found.push(...thresholdFaults(ledger.days, published, { quota: dailyQuota, thresholds }));
    }
    return found;
  }

  async function faultsOfUploads(uploaded: readonly SeenUpload[], evidence: AdmissionEvidence): Promise<string[]> {
    const byRequest = await records.byRequest(users);
    const found = await fileFaults(cluster.connection, accounts.rich, uploaded);
    for (const upload of uploaded) {
      const faults = [...answerFaults(upload, evidence, bounds), ...uploadFaults(byRequest.get(upload.id) ?? [])];
      found.push(...faults.map((fault) => `upload: ${fault} ${JSON.stringify(upload)}`));
    }
    return found;
  }

  function lineOf(): string {
    const count = (isMeant: (call: SeenCall) => boolean) => ofRow.filter(isMeant).length;
    const slowest = Math.max(0, ...ofRow.map(({ sentAt, endedAt }) => endedAt - sentAt));
    const overSocket = count(({ id, status, isWhole }) => id.startsWith('socket-') && status === 200 && isWhole);
    const of = (status: number) => count((call) => call.status === status);
    return `calls ${ofRow.length} · answered ${of(200)}, ${overSocket} over WebSockets · 402 ${of(402)} · 429 ${of(429)} · 5xx ${count(({ status }) => status >= 500)} · broken ${of(0)} · slowest ${(slowest / 1_000).toFixed(1)} s · credits added ${added.length - given.length} times`;
  }

  return {
    begin() {
      const { addresses } = workers;
      load = startCalls({ addresses, keys, random });
      uploads = startUploads({ addresses, key: keys.rich, random });
      funding = startFunding({ addresses, key: billing, userId: accounts.poor });
    },

    async pause() {
      await Promise.all([load?.pause(), uploads?.pause(), funding?.pause()]);
    },

    resume() {
      load?.resume();
      uploads?.resume();
      funding?.resume();
    },

    async end() {
      await Promise.all([load?.stop(), uploads?.stop(), funding?.stop()]);
      ofRow = load?.seen ?? [];
      calls.push(...ofRow);
      added.push(...(funding?.added ?? []));
      notes.push(...(funding?.notes ?? []));
    },

    async verdict({ all: disturbances, skews, stops }: DisturbancesSoFar): Promise<ParallelLoadVerdict> {
      const ends = workers.ends();
      const spentBy = ({ id }: SeenCall) => Math.max(0, ...(upstream.answers.get(id) ?? []).map(costOf));
      const toPoor = added.filter(({ userId }) => userId === accounts.poor);
      const evidence: AdmissionEvidence = {
        calls,
        added: toPoor,
        costOf: spentBy,
        ends,
        disturbances,
        skews,
        stops,
        slowness,
      };
      const received = ofRow.filter((call) => call.status === 200 && call.isWhole);
      const certain = received.filter((call) => !mayBeLost(call, evidence)).map(({ id }) => id);
      const left = await records.settled(certain, settleWithin);
      const uploaded = uploads?.seen ?? [];
      const found = [
        ...left,
        ...(await faultsOfUploads(uploaded, evidence)),
        ...notes,
        ...(await faultsOfCalls(evidence)),
        ...overdraftFaults(evidence, bounds),
        ...limitFaults(evidence, requestsPerMinute),
        ...ends
          .filter(({ code }) => code !== null && code !== 0)
          .map(({ pid, code }) => `worker ${pid} ended with ${code}`),
      ];
      const wrong = found.filter((note) => !told.has(note));
      for (const note of wrong) told.add(note);
      const acknowledged = uploaded.filter(({ fileId }) => fileId !== undefined).length;
      return { line: `${lineOf()} · files ${uploaded.length}, acknowledged ${acknowledged}`, wrong };
    },
  };
}
