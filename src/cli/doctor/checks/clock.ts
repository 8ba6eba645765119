import { type DatabaseContext, failed, ok, type Result, warning } from '../check.ts';

/** As the readiness check of a gateway has it: receivers refuse signatures that are five minutes old. Milliseconds. */
const longestSkew = 10_000;
const noticeableSkew = 1_000;
const remedy = 'synchronise both machines by NTP (chronyc tracking, timedatectl)';

/** This machine's clock against the database's. Signatures carry the former, due times follow the latter. */
export async function checkClock({ admin, now }: Pick<DatabaseContext, 'admin' | 'now'>): Promise<readonly Result[]> {
  const askedAt = now();
  const { localTime } = (await admin.command({ hello: 1 })) as unknown as { readonly localTime: Date };
  const [ahead, behind] = [askedAt - localTime.getTime(), localTime.getTime() - now()];
  const skew = Math.max(0, ahead, behind);
  const message = `this machine is ${(skew / 1_000).toFixed(1)} s ${ahead > behind ? 'ahead of' : 'behind'} the database`;
  if (skew > longestSkew) return [failed(`${message}: receivers refuse signatures that are minutes old`, remedy)];
  if (skew > noticeableSkew) return [warning(message, remedy)];
  return [ok('within a second of the database')];
}
