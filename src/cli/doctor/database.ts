import { withTimeout } from '../../mongo/periodic.ts';
import {
  clockSkew,
  confirmWrites,
  leastFree,
  longestSkew,
  readFreeDisk,
  slowWrite,
} from '../../mongo/probes/probes.ts';
import { schemaCollection } from '../../mongo/schema/prepare-schema.ts';
import type { WebhookDocument } from '../../webhooks/model.ts';
import { createSealer, createSecrets, missingKeyIds } from '../../webhooks/secrets.ts';
import { applicable, type DatabaseContext, failed, ok, problemsOr, type Result, skipped, warning } from './check.ts';

interface Member {
  readonly name: string;
  readonly stateStr: string;
  readonly optimeDate?: Date;
}

interface SetStatus {
  readonly set: string;
  readonly members: readonly Member[];
  /** How many members must have a write, so that a majority has it. */
  readonly writeMajorityCount?: number;
}

/** How far a secondary may be behind. Milliseconds. */
const longestLag = 10_000;

const hasData = ({ stateStr }: Member) => stateStr === 'PRIMARY' || stateStr === 'SECONDARY';
const isArbiter = ({ stateStr }: Member) => stateStr === 'ARBITER';
const names = (members: readonly Member[]) => members.map(({ name, stateStr }) => `${name} (${stateStr})`).join(', ');

/** What is wrong with the members of a replica set. */
function judgeMembers({ members, writeMajorityCount = 1 }: SetStatus): Result[] {
  const down = members.filter((member) => !hasData(member) && !isArbiter(member));
  const live = members.filter(hasData);
  const newest = Math.max(...live.map(({ optimeDate }) => Number(optimeDate ?? 0)));
  const late = live.filter(({ optimeDate }) => newest - Number(optimeDate ?? newest) > longestLag);
  const tooFew = `writes wait: ${writeMajorityCount} members must have each, and ${live.length} can`;
  const alone = 'the set has one member: what is acknowledged is lost with its disk';
  const arbiter = 'the set has an arbiter: once a member with data is down, no write has a majority';
  return applicable(
    [live.length < writeMajorityCount, failed(tooFew, 'bring members with data back')],
    [down.length > 0, warning(`not available: ${names(down)}`, 'bring them back, or take them out of the set')],
    [
      late.length > 0,
      warning(`more than 10 s behind: ${names(late)}`, 'look at their disks, and at the network to them'),
    ],
    [members.length === 1, warning(alone, 'add two members')],
    [members.some(isArbiter), warning(arbiter, 'replace the arbiter by a member with data')],
  );
}

/** The replica set, and whether it can acknowledge what the gateway writes: with a majority and the journal. */
export async function checkReplicaSet({ admin }: Pick<DatabaseContext, 'admin'>): Promise<readonly Result[]> {
  const hello = await admin.command({ hello: 1 });
  if (hello.msg === 'isdbgrid') return [ok('a sharded cluster, through mongos; look at the set of each shard too')];
  if (hello.setName === undefined) {
    const message = 'a standalone mongod: no transactions, and an acknowledged event can be lost with its disk';
    return [failed(message, 'start mongod with --replSet and run rs.initiate() once')];
  }
  const status = (await admin.command({ replSetGetStatus: 1 })) as unknown as SetStatus;
  const problems = judgeMembers(status);
  if (problems.length > 0) return problems;
  return [ok(`${status.set}: ${names(status.members)}; the gateway writes with a majority and the journal`)];
}

/** From here on there is still time to act. A share of 1. */
const littleFree = 0.2;
/** A write that takes longer is not waited for. Milliseconds. */
const longestWrite = 10_000;
const unauthorized = 13;

export async function checkDisk({ db }: Pick<DatabaseContext, 'db'>): Promise<readonly Result[]> {
  const free = await readFreeDisk(db);
  if (free === undefined) return [skipped('the database does not say how full its disk is, as through mongos')];
  const message = `${Math.round(free * 100)} % of the primary's disk is free`;
  const remedy = 'give the database a larger disk, or shorten RETENTION_DAYS; look at the other members too';
  if (free < leastFree) return [failed(message, remedy)];
  return [free < littleFree ? warning(message, remedy) : ok(message)];
}

/** How long the members take to confirm what is written. The write that asks changes nothing. */
export async function checkWrites({ db, prefix }: Pick<DatabaseContext, 'db' | 'prefix'>): Promise<readonly Result[]> {
  const startedAt = performance.now();
  const remedy = 'look at the disks of the members (iostat -x), and at the network between them';
  try {
    await withTimeout(confirmWrites(db, schemaCollection(prefix)), longestWrite);
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === unauthorized)
      return [skipped('the user of the URI must not write')];
    if (performance.now() - startedAt < slowWrite) throw error;
  }
  const took = performance.now() - startedAt;
  const message = `a majority takes ${(took / 1_000).toFixed(2)} s to have a write in its journal`;
  return [took > slowWrite ? failed(message, remedy) : ok(message)];
}

/** Milliseconds. */
const noticeableSkew = 1_000;
const remedy = 'synchronise both machines by NTP (chronyc tracking, timedatectl)';

/** This machine's clock against the database's. Signatures carry the former, due times follow the latter. */
export async function checkClock({ admin, now }: Pick<DatabaseContext, 'admin' | 'now'>): Promise<readonly Result[]> {
  const askedAt = now();
  const { localTime } = (await admin.command({ hello: 1 })) as unknown as { readonly localTime: Date };
  const signedSkew = clockSkew({ askedAt, localTime, answeredAt: now() });
  const skew = Math.abs(signedSkew);
  const message = `this machine is ${(skew / 1_000).toFixed(1)} s ${signedSkew > 0 ? 'ahead of' : 'behind'} the database`;
  if (skew > longestSkew) return [failed(`${message}: receivers refuse signatures that are minutes old`, remedy)];
  if (skew > noticeableSkew) return [warning(message, remedy)];
  return [ok('within a second of the database')];
}

/** How many webhooks of each key are opened. */
const sampleSize = 20;

/** Whether SECRET_KEYS opens the sealed secrets of webhooks: a sample of each key that has sealed some. */
export async function checkSealingKeys({ db, models, settings }: DatabaseContext): Promise<readonly Result[]> {
  const { secretKeys } = settings;
  if (!secretKeys) return [skipped('SECRET_KEYS is not set')];
  const sealer = createSealer(secretKeys);
  const secrets = createSecrets(models.webhooks, sealer);
  const webhooks = db.collection<WebhookDocument>(models.webhooks.collection.collectionName);
  const used = await missingKeyIds(models.webhooks, { keyIds: [] });

  async function judge(keyId: string): Promise<readonly Result[]> {
    const key = `the key '${keyId}'`;
    if (!sealer.keyIds.includes(keyId)) {
      return [failed(`secrets are sealed with ${key}, which is not in SECRET_KEYS`, 'add it behind the others')];
    }
    const sample = await webhooks.find({ sealedWith: keyId }).limit(sampleSize).toArray();
    const unreadable = sample.filter((webhook) => {
      try {
        secrets.open(webhook);
        return false;
      } catch {
        return true;
      }
    });
    if (unreadable.length === 0) return [];
    const ids = unreadable.map(({ _id }) => _id).join(', ');
    const message = `${key} does not open ${unreadable.length} of ${sample.length} secrets: ${ids}`;
    return [failed(message, `set the bytes of ${key} with which they were sealed, or rotate these secrets`)];
  }

  const problems = (await Promise.all(used.map(judge))).flat();
  return problemsOr(problems, `SECRET_KEYS opens the secrets of webhooks (keys in use: ${used.join(', ') || 'none'})`);
}
