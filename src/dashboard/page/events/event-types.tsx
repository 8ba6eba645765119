import { type Query, useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { EventType } from '../data/types.ts';
import { Tag } from '../elements/badge.tsx';
import { Choice } from '../elements/filters.tsx';
import { Loaded } from '../elements/states.tsx';
import { type Column, rowNames, Table } from '../elements/table.tsx';
import { Card, Code, Heading } from '../elements/view.tsx';

/** What a webhook may subscribe to. */
export function useEventTypes(): Query<{ data: EventType[] }> {
  return useRead('/v1/event_types', {});
}

/** A choice of a type, which stands in the address. */
export function EventTypeChoice({ route }: { route: Route }) {
  const types = useEventTypes().data?.data ?? [];
  return (
    <Choice
      route={route}
      name="type"
      label="Event type"
      any="Any type"
      options={types.map(({ type }) => ({ value: type, name: type }))}
    />
  );
}

/** A type's description without the word that all of them begin with; the catalogue says it once. */
export function withoutStage(description: string): string {
  return description.replace(/^Beta\. /, '').replaceAll('`', '');
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

function TypeCard({ described }: { described: EventType }) {
  const { type, description, schema } = described;
  return (
    <Card
      text
      id={type}
      title={type}
      aside={
        <a href={href(['events'], { type })} aria-label={`Past events of ${type}`}>
          Past events
        </a>
      }
    >
      <p>{withoutStage(description)}</p>
      <FieldsTable caption={`Fields of data of ${type}`} schema={schema} />
      <details>
        <summary>Example and schema</summary>
        <div class="stack exchange">
          <Code title={`Example of ${type}`} text={exampleBody(described)} />
          <Code title={`JSON schema of the data of ${type}`} text={JSON.stringify(schema)} />
        </div>
      </details>
    </Card>
  );
}

/** The fields on the first level of a JSON schema. */
function FieldsTable({ caption, schema }: { caption: string; schema: Schema }) {
  const columns: readonly Column<[name: string, field: Schema]>[] = [
    rowNames('Field', ([name]) => <code>{name}</code>),
    { head: 'Type', name: true, cell: ([, field]) => <code>{typeOf(field)}</code> },
    { head: 'Required', name: true, cell: ([name]) => (schema.required?.includes(name) ? 'yes' : 'no') },
    { head: 'Meaning', class: 'cell-wide', cell: ([, { description = '' }]) => description.replaceAll('`', '') },
  ];
  const rows = Object.entries(schema.properties ?? {});
  return <Table kind="fields" caption={caption} columns={columns} rows={rows} keyOf={([name]) => name} />;
}

/** A delivery's body, with this example as its data. */
function exampleBody({ type, example }: EventType): string {
  const created = '2026-01-31T12:00:00.000Z';
  return JSON.stringify({ id: 'evt_01kaj3m5x5a1b2c3d4e5f6g7h8', type, created, data: example });
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly format?: string;
  readonly description?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const types = [schema.type ?? 'any'].flat().join(' | ');
  return schema.format ? `${types} (${schema.format})` : types;
}
