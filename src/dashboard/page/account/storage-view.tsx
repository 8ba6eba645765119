import type { DeletePath } from '../data/api.ts';
import { refreshEvery, useRead } from '../data/query.ts';
import type { Route } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { StoredObject, StoredObjectKind, StoredObjectTotal } from '../data/types.ts';
import { Tag } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { Choice, ClearFilters, Filters, isNarrowed, TimeRange, usePeriod } from '../elements/filters.tsx';
import { FormDialog } from '../elements/form.tsx';
import { bytes, count } from '../elements/format.ts';
import { Empty } from '../elements/states.tsx';
import { endNumbers, type List, Listed, None, numbers, rowNames } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { Card, Facts, Heading } from '../elements/view.tsx';
import { useKeyNames } from './keys-view.tsx';

interface Kind {
  readonly one: string;
  readonly several: string;
  /** Where the provider is asked to delete one; batches, fine-tuning jobs and uploads go by themselves. */
  readonly path?: DeletePath;
}

const kinds: Readonly<Record<StoredObjectKind, Kind>> = {
  file: { one: 'file', several: 'Files', path: '/v1/files/{file_id}' },
  upload: { one: 'upload', several: 'Uploads' },
  vector_store: { one: 'vector store', several: 'Vector stores', path: '/v1/vector_stores/{vector_store_id}' },
  batch: { one: 'batch', several: 'Batches' },
  message_batch: { one: 'batch of messages', several: 'Batches of messages' },
  fine_tuning_job: { one: 'fine-tuning job', several: 'Fine-tuning jobs' },
  container: { one: 'container', several: 'Containers', path: '/v1/containers/{container_id}' },
  skill: { one: 'skill', several: 'Skills', path: '/v1/skills/{skill_id}' },
  response: { one: 'response', several: 'Responses', path: '/v1/responses/{response_id}' },
  conversation: { one: 'conversation', several: 'Conversations', path: '/v1/conversations/{conversation_id}' },
  chat_completion: {
    one: 'chat completion',
    several: 'Chat completions',
    path: '/v1/chat/completions/{completion_id}',
  },
};

const options = Object.entries(kinds).map(([value, { several }]) => ({ value, name: several }));
const narrowing = ['kind', 'time'];

/** What providers keep for the account: how much of each kind, and each of them. */
export function StorageView({ route }: { route: Route }) {
  const { after, kind } = route.query;
  const filter = { ...usePeriod(route), kind, after, limit: 50 };
  const query = useRead('/v1/stored_objects', { query: filter }, refreshEvery);
  const [dialog, open] = useDialog<StoredObject>(
    (close, object) => <DeleteStored object={object} onClose={close} />,
    query.reload,
  );
  const keyName = useKeyNames();
  return (
    <>
      <Heading title="Storage" />
      {query.data?.totals && query.data.totals.length > 0 && <StorageTotals totals={query.data.totals} />}
      <Filters label="Filter what is kept">
        <Choice route={route} name="kind" label="Kind" any="All kinds" options={options} />
        <TimeRange route={route} />
        <ClearFilters route={route} names={narrowing} />
      </Filters>
      <Card label="Kept" title={kinds[kind as StoredObjectKind]?.several ?? 'All, newest first'}>
        <Listed
          query={query}
          list={listOf(keyName, open)}
          empty={isNarrowed(route, narrowing) ? nothingMatches : nothing}
          pages={{ route }}
        />
      </Card>
      {dialog}
    </>
  );
}

const nothingMatches = <Empty title="Nothing matches" text="Nothing has all of what is asked for above." />;
const nothing = (
  <Empty
    title="Nothing kept yet"
    text="Files, stored responses, batches and vector stores of this account appear here."
  />
);

/** How much of each kind there is. */
export function StorageTotals({ totals }: { totals: readonly StoredObjectTotal[] }) {
  return (
    <Facts
      facts={totals.map(({ kind, count: counted, bytes: size, has_more }) => [
        kinds[kind]?.several ?? kind,
        <span class="numbers">
          {count(counted)}
          {has_more && ' or more'} {size > 0 && <span class="muted">{bytes(size)}</span>}
        </span>,
      ])}
    />
  );
}

/** @param onDelete what the button does of each that the API can delete */
function listOf(keyName: (id: string) => string, onDelete: (object: StoredObject) => void): List<StoredObject> {
  return {
    kind: 'storage',
    caption: 'What is kept, newest first',
    keyOf: ({ id }) => id,
    columns: [
      {
        width: '30%',
        ...rowNames('Name', ({ id, name }) => (
          <>
            {name && <b>{name}</b>}
            <code class={name ? 'under' : undefined}>{id}</code>
          </>
        )),
      },
      { head: 'Kind', cell: ({ kind }) => <Tag>{kinds[kind]?.one ?? kind}</Tag> },
      {
        ...endNumbers('Size', Size),
        name: true,
        // nothing is shown of an unknown size at the width of a phone
        class: ({ bytes: size }) => `numbers cell-end${size === null ? ' cell-none' : ''}`,
      },
      { head: 'Made by', name: true, cell: ({ made_by }) => <Maker {...made_by} keyName={keyName} /> },
      {
        head: 'Model',
        name: true,
        class: ({ model }) => (model ? '' : 'cell-none'),
        cell: ({ model }) => model ?? <None />,
      },
      numbers('Created', ({ created_at: at }) => <Ago at={at} />),
      numbers('Ends', ({ expires_at: at }) => (at ? <Ago at={at} /> : <span>When deleted</span>)),
      {
        head: <span class="visually-hidden">Actions</span>,
        class: 'cell-end',
        cell: (object) =>
          kinds[object.kind]?.path && (
            <Button kind="danger" label={`Delete ${nameOf(object)}`} onClick={() => onDelete(object)}>
              Delete
            </Button>
          ),
      },
    ],
  };
}

function Size({ bytes: size }: StoredObject) {
  return size === null ? <None /> : <span title={`${count(size)} bytes`}>{bytes(size)}</span>;
}

interface MakerProps extends Readonly<StoredObject['made_by']> {
  readonly keyName: (id: string) => string;
}

/** The object that something was made for, or else the call that made it, and the key of that. */
function Maker({ api_key_id, endpoint, object_id, keyName }: MakerProps) {
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

function DeleteStored({ object, onClose }: { object: StoredObject; onClose: () => void }) {
  const api = useApi();
  const { one, path } = kinds[object.kind];
  return (
    <FormDialog
      danger
      title={`Delete the ${one}?`}
      submit="Delete"
      onSubmit={async () => {
        if (!path) throw new TypeError(`a ${one} cannot be deleted by itself`);
        // the one parameter of each of these paths is the id
        const [, parameter = ''] = /\{(\w+)\}/.exec(path) ?? [];
        await api.DELETE(path, { params: { path: { [parameter]: object.id } } } as never);
      }}
      done={`The ${one} has been deleted`}
      onClose={onClose}
    >
      <p>
        The provider deletes <b>{nameOf(object)}</b>. Whatever names it from now on is answered with 404. This cannot be
        undone.
      </p>
    </FormDialog>
  );
}
