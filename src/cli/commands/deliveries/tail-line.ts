import type { Schemas } from '../../client/api.ts';
import { localTime, relative } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { type Column, tableLines } from '../../terminal/table.ts';
import { attemptsOf, lastOf, stateCell } from './view.ts';

/** When it ended, which may be a while ago for the first lines; else it has just been seen. */
function timeOf(ended: string | null, now: number): string {
  return localTime(ended ?? new Date(now).toISOString()).slice(11);
}

/** Lines come one at a time, so each column has its width from the start. */
function columns(now: number): readonly Column<Schemas['DeliverySummary']>[] {
  return [
    { header: '', cell: ({ ended_at: at }) => ({ text: timeOf(at, now), style: 'dim' }) },
    { header: '', cell: ({ id }) => id },
    { header: '', cell: stateCell, width: 9 },
    { header: '', cell: attemptsOf },
    { header: '', cell: lastOf, width: 15 },
    { header: '', cell: ({ next_attempt_at: at }) => (at ? `next ${relative(at, now)}` : ''), width: 11 },
    { header: '', cell: ({ webhook_id: id }) => id },
    { header: '', cell: ({ type, test }) => (test ? `${type} (test)` : type) },
  ];
}

/** What a delivery has just become, in one line. */
export function tailLine(delivery: Schemas['DeliverySummary'], paint: Paint, now: number): string {
  const [, line = ''] = tableLines(columns(now), [delivery], paint);
  return line;
}
