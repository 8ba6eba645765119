import { clockSkew, longestSkew } from '../../../mongo/probes/clock-skew.ts';
import { type DatabaseContext, failed, ok, type Result, warning } from '../check.ts';

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
