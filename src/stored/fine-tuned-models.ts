import { fromNow } from '../mongo/clock.ts';
import { type durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import { type Candidate, type ModelOwners, orderUpstreams, selectUpstreams } from '../proxy/upstream.ts';
import type { StoredObjectDocument } from './model.ts';
import type { StoredObject } from './stored-object.ts';

/** A model that an upstream has made for an account. */
export interface FineTunedModel {
  readonly id: string;
  readonly userId: string;
  readonly upstream: string;
  readonly createdAt: Date;
}

/** Which models belong to accounts. */
export type FineTunedModels = ReturnType<typeof createFineTunedModels>;

/** How often a process reads what others have recorded since. Milliseconds. */
const defaultInterval = 2_000;
/** Every so many reads, all are read: that finds what was removed. */
const readsOfAll = 60;
/** What is inserted may be seen by so much later than its time says. Milliseconds. */
const overlap = 10_000;

interface FineTunedModelsDeps {
  readonly collection: ReturnType<typeof durableCollection<StoredObjectDocument>>;
  readonly database: Pick<DatabaseAccess, 'run' | 'isUnavailable'>;
  readonly interval?: number;
  readonly logger: Pick<Logger, 'warn'>;
}

const projection = { item: 1, userId: 1, upstream: 1, createdAt: 1 } as const;

function toModel({ item = '', userId, upstream, createdAt }: StoredObjectDocument): FineTunedModel {
  return { id: item, userId, upstream, createdAt };
}

/**
 * All fine-tuned models of all accounts, in the memory of each process, so that a call of a model costs no read of the database. They are read at the start;
 * after that a process learns what others record within two seconds, and looks a model up that it would answer 404 for.
 */
export function createFineTunedModels({
  collection,
  database,
  interval = defaultInterval,
  logger,
}: FineTunedModelsDeps) {
  const known = new Map<string, readonly FineTunedModel[]>();
  /** What this process has learned while all are being read. */
  let learned: FineTunedModel[] = [];
  let reads = 0;
  /** When the last read that succeeded began, by `performance.now()`. */
  let readAt = 0;
  const reading = createPeriodic({
    name: 'the read of fine-tuned models',
    async task() {
      reads += 1;
      if (reads % readsOfAll === 0) return readAll();
      const startedAt = performance.now();
      const since = fromNow(-overlap - Math.round(startedAt - readAt));
      for (const model of await read({ $expr: { $gte: ['$createdAt', since] } })) add(model);
      readAt = startedAt;
    },
    interval,
    initialDelay: interval,
    logger,
  });

  function add(model: FineTunedModel): void {
    const { id, upstream } = model;
    const others = (known.get(id) ?? []).filter((other) => other.upstream !== upstream);
    known.set(id, [...others, model]);
  }

  async function read(filter: object): Promise<FineTunedModel[]> {
    const found = await collection.find({ kind: 'model', ...filter }, { projection, ...inOneBatch }).toArray();
    return found.map(toModel);
  }

  async function readAll(): Promise<void> {
    learned = [];
    const startedAt = performance.now();
    const all = await read({});
    known.clear();
    for (const model of [...all, ...learned]) add(model);
    readAt = startedAt;
  }

  /** The account's model of this name; asks the database where this process knows of none. */
  async function find(id: string, userId: string): Promise<FineTunedModel | undefined> {
    const isOwn = (model: FineTunedModel) => model.userId === userId;
    const own = known.get(id)?.find(isOwn);
    // what nobody can record at present, this process knows
    if (own || database.isUnavailable) return own;
    const found = await database.run(() => read({ item: id, userId }));
    found.forEach(add);
    return found[0];
  }

  return {
    /** By name. */
    known: known as ReadonlyMap<string, readonly FineTunedModel[]>,

    find,

    /** The models of an account. */
    of: (userId: string): FineTunedModel[] => [...known.values()].flat().filter((model) => model.userId === userId),

    /** Whether an upstream has made a model of this name for another account. */
    isForeign: (id: string, userId: string, upstream: string): boolean =>
      known.get(id)?.some((model) => model.upstream === upstream && model.userId !== userId) ?? false,

    /**
     * The upstreams that a call of a model goes to, where an account has one of its name, or no upstream serves it: the account's own is at the upstream that
     * has made it, and nobody gets at another's.
     * @throws GatewayError `model_not_found`, `database_unavailable`
     */
    async route<U extends Candidate & { readonly name: string }>(
      upstreams: readonly U[],
      model: string,
      userId: string,
    ): Promise<readonly [U, ...U[]]> {
      const own = await find(model, userId);
      const owners = known.get(model) ?? [];
      const [first, ...others] = own
        ? upstreams.filter(({ name }) => name === own.upstream)
        : orderUpstreams(
            upstreams.filter(({ name }) => !owners.some(({ upstream }) => upstream === name)),
            model,
            Math.random,
          );
      return first ? [first, ...others] : selectUpstreams([], model);
    },

    /** This process has recorded one. */
    added({ id, userId, upstream }: StoredObject): void {
      const model = { id, userId, upstream, createdAt: new Date() };
      learned.push(model);
      add(model);
    },

    /** This process has removed one. */
    removed({ id, upstream }: Pick<StoredObject, 'id' | 'upstream'>): void {
      const others = (known.get(id) ?? []).filter((other) => other.upstream !== upstream);
      if (others.length > 0) known.set(id, others);
      else known.delete(id);
    },

    /** Reads all, and from then on what is new. */
    async init(): Promise<void> {
      await readAll();
      reading.start();
    },

    close: () => reading.stop(),
  } satisfies ModelOwners & Record<string, unknown>;
}
