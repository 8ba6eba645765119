import type { EventType } from '../api/types.ts';
import { Tag } from '../elements/badge.tsx';
import { Code } from '../elements/code.tsx';
import { Loaded } from '../elements/states.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { useEventTypes } from '../events/use-event-types.ts';
import { withoutStage } from '../events/words.ts';
import { href } from '../routing/route.ts';
import { Heading } from '../shell/heading.tsx';
import { type DataField, fieldsOf } from './fields.ts';

const columns: readonly Column<DataField>[] = [
  { head: 'Field', scopes: true, class: 'cell-main', cell: ({ name }) => <code>{name}</code> },
  { head: 'Type', name: 'Type', cell: ({ type }) => <code>{type}</code> },
  { head: 'Required', name: 'Required', cell: ({ isRequired }) => (isRequired ? 'yes' : 'no') },
  { head: 'Meaning', class: 'cell-wide', cell: ({ description }) => description },
];

/** A delivery's body, with this example as its data. */
function exampleBody({ type, example }: EventType): string {
  const created = '2026-01-31T12:00:00.000Z';
  return JSON.stringify({ id: 'evt_01kaj3m5x5a1b2c3d4e5f6g7h8', type, created, data: example });
}

function TypeCard({ described }: { described: EventType }) {
  const { type, description, schema } = described;
  return (
    <section class="card" aria-labelledby={type}>
      <div class="card-head">
        <h2 id={type}>{type}</h2>
        <a href={href(['events'], { type })} aria-label={`Past events of ${type}`}>
          Past events
        </a>
      </div>
      <div class="card-body">
        <p>{withoutStage(description)}</p>
        <Table
          kind="fields"
          caption={`Fields of data of ${type}`}
          columns={columns}
          rows={fieldsOf(schema)}
          keyOf={({ name }) => name}
        />
        <details>
          <summary>Example and schema</summary>
          <div class="exchange">
            <Code title={`Example of ${type}`} text={exampleBody(described)} />
            <Code title={`JSON schema of the data of ${type}`} text={JSON.stringify(schema)} />
          </div>
        </details>
      </div>
    </section>
  );
}

/** Every type of event that a webhook may subscribe to. */
export function EventTypesView() {
  const query = useEventTypes();
  return (
    <>
      <Heading title="Event types">
        Event types <Tag>beta</Tag>
      </Heading>
      <p class="muted intro">
        Types and fields may be added: ignore those that you do not know.{' '}
        <a href={href(['verification'])}>How to verify deliveries</a>
      </p>
      <Loaded query={query} lines={8}>
        {({ data }) => data.map((described) => <TypeCard key={described.type} described={described} />)}
      </Loaded>
    </>
  );
}
