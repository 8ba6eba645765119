import { PassingFailure } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** A page of a list, as every list of the API answers. */
export interface ResultPage<Row> {
  data: Row[];
  has_more: boolean;
  /** What the next page follows, where that is not the last row of this one. */
  next_after?: string;
}

/** The most one request answers. */
const pageSize = 100;

/** Puts pages together until there are `limit` rows or no more. */
export async function gather<Row extends { id: string }>(
  limit: number,
  page: (query: { limit: number; after?: string }) => Promise<ResultPage<Row>>,
  start?: string,
): Promise<ResultPage<Row>> {
  const data: Row[] = [];
  let after = start;
  for (;;) {
    const next = await page({ limit: Math.min(pageSize, limit - data.length), ...(after && { after }) });
    data.push(...next.data);
    after = next.next_after ?? data.at(-1)?.id;
    const { has_more, next_after } = next;
    const isLast = !has_more || (next.data.length === 0 && next_after === undefined);
    if (isLast || data.length >= limit) return { data, has_more, ...(next_after !== undefined && { next_after }) };
  }
}

/** Says on stderr that there are more rows, and how to get them. */
export function printMore({ printNote }: Terminal, { data, has_more, next_after }: ResultPage<{ id: string }>): void {
  const after = next_after ?? data.at(-1)?.id;
  if (has_more && after) printNote(`There are more: use --limit ${data.length * 5}, or --after ${after}`);
}

/**
 * Returns nothing while the gateway restarts or is busy, so that the caller reads again, and says once that it waits. The first
 * read must succeed.
 */
export function retryWhileUnavailable<T>(read: () => Promise<T[]>, { printNote }: Terminal): () => Promise<T[]> {
  let waiting: boolean | undefined;
  return async () => {
    try {
      const items = await read();
      if (waiting) printNote('It answers again.');
      waiting = false;
      return items;
    } catch (error) {
      if (waiting === undefined || !(error instanceof PassingFailure)) throw error;
      if (!waiting) printNote(`${error.message.split('\n')[0]} Waiting for it …`);
      waiting = true;
      return [];
    }
  };
}
