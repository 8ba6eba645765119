import type { PastEvent } from '../api/types.ts';
import { Badge, Tag } from '../elements/badge.tsx';
import { Ago } from '../elements/time.tsx';
import { href } from '../routing/route.ts';
import { countsOf, standingOf } from './words.ts';

function Row({ event }: { event: PastEvent }) {
  const { shape, words } = standingOf(event);
  return (
    <tr>
      <td>
        <Badge shape={shape}>{words}</Badge>
      </td>
      <td class="cell-main">
        <a class="row-link" href={href(['events', event.id])}>
          {event.type}
        </a>
        {event.test && <Tag>test</Tag>}
        <code class="under">{event.id}</code>
      </td>
      <td class="cell-wide">
        <span class="cell-name">Deliveries </span>
        {countsOf(event)}
      </td>
      <td class="numbers cell-end">
        <Ago at={event.created} />
      </td>
    </tr>
  );
}

export function EventTable({ caption, events }: { caption: string; events: readonly PastEvent[] }) {
  return (
    <table class="list events">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          <th scope="col" class="col-state">
            State
          </th>
          <th scope="col">Event</th>
          <th scope="col">Deliveries</th>
          <th scope="col" class="col-created cell-end">
            Created
          </th>
        </tr>
      </thead>
      <tbody>
        {events.map((event) => (
          <Row key={event.id} event={event} />
        ))}
      </tbody>
    </table>
  );
}
