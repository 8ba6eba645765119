import type { Terminal } from '../terminal/terminal.ts';

/** A page of a list, as every list of the API answers. */
export interface Page<Row> {
  data: Row[];
  has_more: boolean;
}

/** The most one request answers. */
const pageSize = 100;

/** Puts pages together until there are `limit` rows or no more. */
export async function gather<Row extends { id: string }>(
  limit: number,
  page: (query: { limit: number; after?: string }) => Promise<Page<Row>>,
  start?: string,
): Promise<Page<Row>> {
  const data: Row[] = [];
  let after = start;
  for (;;) {
    const next = await page({ limit: Math.min(pageSize, limit - data.length), ...(after && { after }) });
    data.push(...next.data);
    after = data.at(-1)?.id;
    if (!next.has_more || next.data.length === 0 || data.length >= limit) return { data, has_more: next.has_more };
  }
}

/** Says on stderr that a list goes on, and how to read on. */
export function tellOfMore({ tell }: Terminal, { data, has_more }: Page<{ id: string }>): void {
  const last = data.at(-1);
  if (has_more && last) tell(`There are more: --limit ${data.length * 5}, or --after ${last.id}`);
}
