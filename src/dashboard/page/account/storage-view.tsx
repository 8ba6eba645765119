import { useState } from 'preact/hooks';
import { refreshEvery, useQuery } from '../data/query.ts';
import type { Route } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { StoredObject, StoredObjectKind, StoredObjectTotal } from '../data/types.ts';
import { useAnnounce } from '../elements/announce.tsx';
import { Tag } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { Choice, ClearFilters, Filters, isNarrowed, TimeRange, usePeriod } from '../elements/filters.tsx';
import { ConfirmDialog } from '../elements/form.tsx';
import { bytes, count } from '../elements/format.ts';
import { Empty } from '../elements/states.tsx';
import { type Column, Listed, Pager, Table } from '../elements/table.tsx';
import { Ago, AgoOr } from '../elements/time.tsx';
import { Card, Facts, Heading } from '../elements/view.tsx';
import { useKeyNames } from './keys-view.tsx';

/** What one of each kind is called, and several. */
const names: Readonly<Record<StoredObjectKind, readonly [one: string, several: string]>> = {
  file: ['file', 'Files'],
  upload: ['upload', 'Uploads'],
  vector_store: ['vector store', 'Vector stores'],
  batch: ['batch', 'Batches'],
  fine_tuning_job: ['fine-tuning job', 'Fine-tuning jobs'],
  container: ['container', 'Containers'],
  skill: ['skill', 'Skills'],
  response: ['response', 'Responses'],
  conversation: ['conversation', 'Conversations'],
  chat_completion: ['chat completion', 'Chat completions'],
};

const kinds = Object.entries(names).map(([value, [, name]]) => ({ value, name }));
const narrowing = ['kind', 'time'];
const pageSize = 50;

/** What providers keep for the account: how much of each kind, and each of them. */
export function StorageView({ route }: { route: Route }) {
  const api = useApi();
  const { after, kind } = route.query;
  const filter = { ...usePeriod(route), kind, after, limit: pageSize };
  const query = useQuery((signal) => api.listStoredObjects(filter, signal), {
    key: JSON.stringify(filter),
    every: refreshEvery,
  });
  const [deleting, setDeleting] = useState<StoredObject>();
  const keyName = useKeyNames();
  const narrowed = isNarrowed(route, narrowing);
  return (
    <>
      <Heading title="Storage" />
      {query.data?.totals && query.data.totals.length > 0 && <StorageTotals totals={query.data.totals} />}
      <Filters label="Filter what is kept">
        <Choice route={route} name="kind" label="Kind" any="All kinds" options={kinds} />
        <TimeRange route={route} />
        <ClearFilters route={route} names={narrowing} />
      </Filters>
      <Card label="Kept" title={names[kind as StoredObjectKind]?.[1] ?? 'All, newest first'}>
        <Listed query={query} empty={<Nothing narrowed={narrowed} />}>
          {({ data, has_more }) => (
            <>
              <Table
                kind="storage"
                caption="What is kept, newest first"
                columns={[...columnsOf(keyName), actions(setDeleting)]}
                rows={data}
                keyOf={({ id }) => id}
              />
              <Pager route={route} next={has_more ? data.at(-1)?.id : undefined} />
            </>
          )}
        </Listed>
      </Card>
      {deleting && (
        <DeleteStored
          object={deleting}
          onClose={() => {
            setDeleting(undefined);
            query.reload();
          }}
        />
      )}
    </>
  );
}

function Nothing({ narrowed }: { narrowed: boolean }) {
  if (narrowed) {
    return (
      <Empty title="Nothing matches">
        <p class="muted">Nothing has all of what is asked for above.</p>
      </Empty>
    );
  }
  return (
    <Empty title="Nothing kept yet">
      <p class="muted">Files, stored responses, batches and vector stores of this account appear here.</p>
    </Empty>
  );
}

/** How much of each kind there is. */
export function StorageTotals({ totals }: { totals: readonly StoredObjectTotal[] }) {
  return (
    <Facts
      facts={totals.map(({ kind, count: counted, bytes: size, has_more }) => [
        names[kind]?.[1] ?? kind,
        <span class="numbers">
          {count(counted)}
          {has_more && ' or more'} {size > 0 && <span class="muted">{bytes(size)}</span>}
        </span>,
      ])}
    />
  );
}

const columnsOf = (keyName: (id: string) => string): readonly Column<StoredObject>[] => [
  {
    head: 'Name',
    scopes: true,
    class: 'cell-main',
    cell: ({ id, name }) => (
      <>
        {name && <b>{name}</b>}
        <code class={name ? 'under' : undefined}>{id}</code>
      </>
    ),
  },
  { head: 'Kind', cell: ({ kind }) => <Tag>{names[kind]?.[0] ?? kind}</Tag> },
  { head: 'Size', headClass: 'cell-end', name: true, class: sizeClass, cell: Size },
  { head: 'Made by', name: true, cell: ({ made_by }) => <Maker {...made_by} keyName={keyName} /> },
  {
    head: 'Model',
    name: true,
    class: ({ model }) => (model ? '' : 'cell-none'),
    cell: ({ model }) => model ?? <None />,
  },
  { head: 'Created', name: true, class: 'numbers', cell: ({ created_at: at }) => <Ago at={at} /> },
  { head: 'Ends', name: true, class: 'numbers', cell: ({ expires_at: at }) => <End at={at} /> },
];

/** Nothing is shown of an unknown size at the width of a phone. */
function sizeClass({ bytes: size }: StoredObject): string {
  return size === null ? 'numbers cell-end cell-none' : 'numbers cell-end';
}

function Size({ bytes: size }: StoredObject) {
  return size === null ? <None /> : <span title={`${count(size)} bytes`}>{bytes(size)}</span>;
}

function None() {
  return <span class="muted">–</span>;
}

/** When something is kept no longer. */
function End({ at }: { at: string | null }) {
  return at === null ? <span>When deleted</span> : <AgoOr at={at} />;
}

/** The object that something was made for, or else the call that made it, and the key of that. */
function Maker({
  api_key_id,
  endpoint,
  object_id,
  keyName,
}: StoredObject['made_by'] & { keyName: (id: string) => string }) {
  const call = object_id ?? endpoint;
  if (!api_key_id && !call) return <None />;
  return (
    <>
      {api_key_id && <span>{keyName(api_key_id)}</span>}
      {call && <code class={api_key_id ? 'under' : undefined}>{call}</code>}
    </>
  );
}

const nameOf = ({ id, name }: StoredObject) => name || id;

/** A button for each that the API can delete. */
function actions(onDelete: (object: StoredObject) => void): Column<StoredObject> {
  return {
    head: <span class="visually-hidden">Actions</span>,
    class: 'cell-end',
    cell: (object) =>
      deletable.has(object.kind) && (
        <Button kind="danger" label={`Delete ${nameOf(object)}`} onClick={() => onDelete(object)}>
          Delete
        </Button>
      ),
  };
}

/** Batches, fine-tuning jobs and uploads go by themselves. */
const deletable: ReadonlySet<StoredObjectKind> = new Set<StoredObjectKind>([
  'file',
  'vector_store',
  'container',
  'skill',
  'response',
  'conversation',
  'chat_completion',
]);

function DeleteStored({ object, onClose }: { object: StoredObject; onClose: () => void }) {
  const api = useApi();
  const announce = useAnnounce();
  const name = names[object.kind][0];
  return (
    <ConfirmDialog
      title={`Delete the ${name}?`}
      confirm="Delete"
      onConfirm={async () => {
        await api.deleteStoredObject(object.kind, object.id);
        announce(`The ${name} has been deleted`);
        onClose();
      }}
      onClose={onClose}
    >
      <p>
        The provider deletes <b>{nameOf(object)}</b>. Whatever names it from now on is answered with 404. This cannot be
        undone.
      </p>
    </ConfirmDialog>
  );
}
