import { foldCase } from '../http/json/tokens.ts';
import { fromNow } from '../mongo/clock.ts';
import { type durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import type { Logger } from '../options/options.ts';
import type { AccountModels, FineTunedModel } from '../proxy/model-list.ts';
import { isTunedName, modelNotFound, type NamedCandidate, orderUpstreams } from '../proxy/upstream.ts';
import type { StoredObjectDocument } from './model.ts';
import type { StoredObject } from './stored-object.ts';

/** How often a process reads what others have recorded since, so that it knows that within two seconds. Milliseconds. */
const interval = 1_900;
/** Every so many reads, all are read: that finds what was removed. */
const readsOfAll = 60;
/** What is inserted may be seen by so much later than its time says. Milliseconds. */
const overlap = 10_000;

interface FineTunedModelsDeps {
  readonly collection: ReturnType<typeof durableCollection<StoredObjectDocument>>;
  readonly database: Pick<DatabaseAccess, 'run' | 'isUnavailable'>;
  readonly logger: Pick<Logger, 'warn'>;
}

const projection = { item: 1, userId: 1, upstream: 1, createdAt: 1 } as const;

/** Names for which some provider may take one for the other: what one account has under one of them, no other gets at under another. */
function folded(model: string): string {
  return foldCase(model.trim());
}

function toModel({ item = '', userId, upstream, createdAt }: StoredObjectDocument): FineTunedModel {
  return { id: item, userId, upstream, createdAt };
}

/**
 * All fine-tuned models of all accounts, in the memory of each process, so that a call of a model costs no read of the database. They are read at the start;
 * after that a process learns what others record within two seconds, and looks a model up that it would answer 404 for.
 */
export class FineTunedModels implements AccountModels {
  readonly #deps: FineTunedModelsDeps;
  /** By folded name. */
  readonly #known = new Map<string, readonly FineTunedModel[]>();
  /** What this process has learned while all are being read. */
  #learned: FineTunedModel[] = [];
  #reads = 0;
  /** When the last read that succeeded began, by `performance.now()`. */
  #readAt = 0;
  readonly #reading: ReturnType<typeof createPeriodic>;

  constructor(deps: FineTunedModelsDeps) {
    this.#deps = deps;
    this.#reading = createPeriodic({
      name: 'the read of fine-tuned models',
      task: () => this.#readNew(),
      interval,
      initialDelay: interval,
      logger: deps.logger,
    });
  }

  get known(): { readonly size: number } {
    return this.#known;
  }

  has(id: string): boolean {
    return this.#known.has(folded(id));
  }

  of(userId: string): FineTunedModel[] {
    return [...this.#known.values()].flat().filter((model) => model.userId === userId);
  }

  /** @param upstream @default any */
  own(id: string, userId: string, upstream?: string): FineTunedModel | undefined {
    return this.#meantBy(id).find(
      (model) => model.id === id && model.userId === userId && (upstream === undefined || model.upstream === upstream),
    );
  }

  /** Whether an account has an upstream's model of this name to itself. What the operator has named there is everybody's. */
  isExclusive(id: string, upstream: Pick<NamedCandidate, 'name' | 'names'>): boolean {
    return !upstream.names(id) && this.#meantBy(id).some((model) => model.upstream === upstream.name);
  }

  isForeign(id: string, userId: string, upstream: NamedCandidate): boolean {
    if (upstream.names(id) || this.own(id, userId, upstream.name)) return false;
    return this.isExclusive(id, upstream) || (isTunedName(id) && !upstream.serves(id));
  }

  requireOpen(id: string, userId: string, upstreams: readonly NamedCandidate[]): void {
    if (upstreams.some((upstream) => this.isForeign(id, userId, upstream))) throw modelNotFound(id);
  }

  async find(id: string, userId: string): Promise<FineTunedModel | undefined> {
    const { database } = this.#deps;
    const own = this.own(id, userId);
    // what nobody can record at present, this process knows
    if (own || database.isUnavailable) return own;
    const found = await database.run(() => this.#read({ item: id, userId }));
    for (const model of found) this.#learn(model);
    return found[0];
  }

  /**
   * The upstreams that a call of a model goes to, where an account has one of its name, or no upstream serves it: the account's own is at the upstream that
   * has made it, and nobody gets at another's. What an upstream is configured to serve by its name is everybody's there, whoever has made it.
   * @throws GatewayError `model_not_found`, `database_unavailable`
   */
  async route<U extends NamedCandidate>(
    upstreams: readonly U[],
    model: string,
    userId: string,
  ): Promise<readonly [U, ...U[]]> {
    // a model that many accounts call is not looked up for each call
    const isNamed = upstreams.some((upstream) => upstream.names(model));
    const own = isNamed ? this.own(model, userId) : await this.find(model, userId);
    const makers = upstreams.filter(({ name }) => name === own?.upstream);
    const open = upstreams.filter((upstream) => !this.isExclusive(model, upstream));
    const isOnlyOwn = own !== undefined && !makers.some((upstream) => upstream.names(model));
    const [first, ...others] = isOnlyOwn ? makers : orderUpstreams(open, model, Math.random);
    if (!first) throw modelNotFound(model);
    return [first, ...others];
  }

  /** This process has recorded one. */
  added(stored: StoredObjectDocument): void {
    this.#learn(toModel(stored));
  }

  /** This process has removed one. */
  removed(removed: Pick<StoredObject, 'id' | 'upstream'>): void {
    const others = this.#without(removed);
    this.#learned = this.#learned.filter(({ id, upstream }) => id !== removed.id || upstream !== removed.upstream);
    if (others.length > 0) this.#known.set(folded(removed.id), others);
    else this.#known.delete(folded(removed.id));
  }

  /** Reads all, and from then on what is new. */
  async init(): Promise<void> {
    await this.#readAll();
    this.#reading.start();
  }

  close(): Promise<void> {
    return this.#reading.stop();
  }

  /** Whatever model the name may mean to an upstream. */
  #meantBy(id: string): readonly FineTunedModel[] {
    return this.#known.get(folded(id)) ?? [];
  }

  #without({ id, upstream }: Pick<FineTunedModel, 'id' | 'upstream'>): readonly FineTunedModel[] {
    return this.#meantBy(id).filter((other) => other.upstream !== upstream || other.id !== id);
  }

  #add(model: FineTunedModel): void {
    this.#known.set(folded(model.id), [...this.#without(model), model]);
  }

  #learn(model: FineTunedModel): void {
    this.#learned.push(model);
    this.#add(model);
  }

  async #read(filter: object): Promise<FineTunedModel[]> {
    const { collection } = this.#deps;
    const found = await collection.find({ kind: 'model', ...filter }, { projection, ...inOneBatch }).toArray();
    return found.map(toModel);
  }

  async #readAll(): Promise<void> {
    this.#learned = [];
    const startedAt = performance.now();
    const all = await this.#read({});
    this.#known.clear();
    for (const model of [...all, ...this.#learned]) this.#add(model);
    this.#readAt = startedAt;
  }

  /** Reads what others have recorded since the last read. */
  async #readNew(): Promise<void> {
    const { collection } = this.#deps;
    this.#reads += 1;
    if (this.#reads % readsOfAll === 0) return this.#readAll();
    const startedAt = performance.now();
    const since = fromNow(-overlap - Math.round(startedAt - this.#readAt));
    const isNew = { kind: 'model' as const, $expr: { $gte: ['$createdAt', since] } };
    const found = await collection.find(isNew, { projection, ...inOneBatch }).toArray();
    for (const document of found) this.#add(toModel(document));
    // one that came late may have left out what was recorded meanwhile: the next goes back as far
    if (performance.now() - startedAt < overlap / 2) this.#readAt = startedAt;
  }
}
