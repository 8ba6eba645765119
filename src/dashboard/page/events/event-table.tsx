import type { PastEvent } from '../api/types.ts';
import { Badge } from '../elements/badge.tsx';
import { RowName } from '../elements/row-name.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { countsOf, statusOf } from './words.ts';

const columns: readonly Column<PastEvent>[] = [
  {
    head: 'State',
    headClass: 'col-state',
    cell: (event) => {
      const { shape, words } = statusOf(event);
      return <Badge shape={shape}>{words}</Badge>;
    },
  },
  {
    head: 'Event',
    class: 'cell-main',
    cell: ({ id, type, test }) => <RowName to={['events', id]} name={type} test={test} id={id} />,
  },
  { head: 'Deliveries', name: 'Deliveries', class: 'cell-wide', cell: countsOf },
  {
    head: 'Created',
    headClass: 'col-created cell-end',
    class: 'numbers cell-end',
    cell: ({ created }) => <Ago at={created} />,
  },
];

export function EventTable({ caption, events }: { caption: string; events: readonly PastEvent[] }) {
  return <Table kind="events" caption={caption} columns={columns} rows={events} keyOf={({ id }) => id} />;
}
