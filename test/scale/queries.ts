type Document = Readonly<Record<string, unknown>>;

/** One query of one collection. */
export interface Query {
  readonly command: string;
  readonly collection: string;
  readonly filter: Document;
  /** Whether it may change one document alone, or inserts one where none matches: then MongoDB below 7.0 wants the key. */
  readonly isSingle: boolean;
}

const matchOf = (pipeline: readonly Document[]) => (pipeline[0]?.$match ?? {}) as Document;

/** The queries of a command that a driver sends; none of an insert, which is sent by the documents' own keys. */
export function queriesOf(command: Document): Query[] {
  const [[name = '', collection = ''] = []] = Object.entries(command) as [string, string][];
  const query = (filter: unknown, isSingle = false): Query => ({
    command: name,
    collection,
    filter: (filter ?? {}) as Document,
    isSingle,
  });
  if (name === 'find') return [query(command.filter)];
  if (name === 'distinct' || name === 'count') return [query(command.query)];
  if (name === 'findAndModify') return [query(command.query, true)];
  if (name === 'update')
    return (command.updates as { q: Document; multi?: boolean; upsert?: boolean }[]).map(({ q, multi, upsert }) =>
      query(q, upsert === true || multi !== true),
    );
  if (name === 'delete')
    return (command.deletes as { q: Document; limit: number }[]).map(({ q, limit }) => query(q, limit === 1));
  if (name !== 'aggregate') return [];
  const pipeline = command.pipeline as Document[];
  const unions = pipeline.flatMap(({ $unionWith }) => ($unionWith ? [$unionWith as UnionWith] : []));
  return [
    query(matchOf(pipeline)),
    ...unions.map(({ coll, pipeline: inner }) => ({ ...query(matchOf(inner)), collection: coll })),
  ];
}

interface UnionWith {
  readonly coll: string;
  readonly pipeline: readonly Document[];
}

/** A query by its command, collection and the fields that it names, whatever their values. */
export function shapeOf({ command, collection, filter }: Query): string {
  return `${command} ${collection}: ${Object.keys(filter).sort().join(', ') || 'everything'}`;
}
