import { type Dialect, refuse } from '../errors.ts';
import type { Logger } from '../options/options.ts';
import { classify, OutboundError } from '../outbound/outbound-error.ts';
import { collect, decoded, isObject } from './answer-body.ts';
import { failureFrom } from './failure.ts';
import { anthropicVersion, upstreamRequestHeaders } from './headers.ts';
import {
  type ModelOwners,
  modelMatcher,
  type NamedCandidate,
  type Upstream,
  upstreamModelName,
  upstreamUrl,
} from './upstream.ts';

/** One model as the upstream lists it, unknown fields included. @public */
export interface Model {
  readonly id: string;
  readonly object: 'model';
  readonly created: number;
  readonly owned_by: string;
  readonly [field: string]: unknown;
}

/** A model that an upstream has made for an account. */
export interface FineTunedModel {
  /** Its name. */
  readonly id: string;
  readonly userId: string;
  readonly upstream: string;
  readonly createdAt: Date;
}

/** Which models belong to accounts, as far as this process knows but where it says otherwise. */
export interface AccountModels extends ModelOwners {
  /** The models of an account. */
  of(userId: string): readonly FineTunedModel[];
  /** The account's model of this name. */
  own(id: string, userId: string): FineTunedModel | undefined;
  /** The same; asks the database where this process knows of none. @throws GatewayError `database_unavailable` */
  find(id: string, userId: string): Promise<FineTunedModel | undefined>;
  /** Whether an account has an upstream's model of this name to itself. */
  isExclusive(id: string, upstream: NamedCandidate): boolean;
  /** Whether a model of this name is at an upstream for others than this account. */
  isForeign(id: string, userId: string, upstream: NamedCandidate): boolean;
}

/** The largest list that is read from an upstream. Bytes. */
const listLimit = 8 * 1024 * 1024;
/** How long an upstream may take for its list. Milliseconds. */
const listTimeout = 10_000;
/** How long a list is used; a tenth of that when an upstream is missing from it. Milliseconds. */
const defaultLifetime = 60_000;

const unlisted = { object: 'model', created: 0, owned_by: 'system' } as const;

/** How an upstream that speaks no other API than Anthropic's is asked for its list: for the most that a page of it has. */
const anthropicList = { headers: anthropicVersion, search: '?limit=1000' };

/** A model as it is listed: Anthropic's API says in words when it was made. */
function toModel(listed: Record<string, unknown> & Pick<Model, 'id'>): Model {
  const time = Date.parse(String(listed.created_at));
  return { ...unlisted, ...(!Number.isNaN(time) && { created: Math.floor(time / 1_000) }), ...listed };
}

function readList(bytes: Buffer): Model[] {
  const list: unknown = JSON.parse(bytes.toString('utf8'));
  // Together answers a bare list, and a server in Go null for an empty one
  const data = isObject(list) ? (list.data === null ? [] : list.data) : list;
  if (!Array.isArray(data)) throw new OutboundError('invalid_response', 'the list of models has no data');
  return data.filter((model) => typeof model?.id === 'string').map(toModel);
}

/** An upstream's own list; `undefined` when it has no such endpoint. Rejects with an OutboundError. */
async function fetchList(upstream: Upstream): Promise<Model[] | undefined> {
  const { headers, search } = upstream.speaks.includes('openai') ? { headers: {}, search: '' } : anthropicList;
  const answer = await upstream.http.request({
    url: upstreamUrl(upstream, '/models', search),
    headers: upstreamRequestHeaders({ accept: 'application/json', ...headers }, upstream.headers, 'req_models'),
    signal: AbortSignal.timeout(listTimeout),
    resends: true,
  });
  const response = decoded(answer);
  const { status } = response;
  if (status !== 200) response.data.destroy();
  if (status === 404 || status === 405 || status === 501) return undefined;
  if (status !== 200) {
    throw new OutboundError('invalid_response', `the list of models was answered ${status}`, { status });
  }
  const { bytes, whole } = await collect(response.data, listLimit);
  if (!whole) {
    response.data.destroy();
    throw new OutboundError('invalid_response', 'the list of models is too large');
  }
  return readList(bytes);
}

/** What callers may call at an upstream: the listed models it is configured to serve, those named outright, the aliases. */
function offered(upstream: Pick<Upstream, 'serves' | 'models' | 'aliases'>, listed: readonly Model[]): Model[] {
  const byId = new Map(listed.map((model) => [model.id, model]));
  const named = [...upstream.models.filter((model) => !model.includes('*')), ...Object.keys(upstream.aliases)];
  const served = listed.filter(({ id }) => upstream.serves(id));
  return [...served, ...named.map((id) => ({ ...unlisted, ...byId.get(upstreamModelName(upstream, id)), id }))];
}

/** A model, and the upstreams that offer it. */
interface ListedModel {
  readonly model: Model;
  readonly upstreams: Upstream[];
}

/** The first model of each id. */
function merged(lists: readonly { readonly upstream: Upstream; readonly offered: readonly Model[] }[]): ListedModel[] {
  const byId = new Map<string, ListedModel>();
  for (const { upstream, offered } of lists) {
    for (const model of offered) {
      const listed = byId.get(model.id);
      if (listed) listed.upstreams.push(upstream);
      else byId.set(model.id, { model, upstreams: [upstream] });
    }
  }
  return [...byId.values()];
}

/** Whether a model can be called by this API. */
function isSpoken({ upstreams }: ListedModel, dialect: Dialect): boolean {
  return upstreams.some(({ speaks }) => speaks.includes(dialect));
}

/** A page of a list, as Anthropic's clients ask for it. */
export interface ModelPage {
  readonly limit?: number;
  readonly after_id?: string;
  readonly before_id?: string;
}

/** The most models of a page. */
const longestPage = 1_000;

/** A model with what Anthropic's clients read of it. */
function anthropicModel(model: Model): Model {
  const createdAt = new Date(model.created * 1_000).toISOString();
  return { type: 'model', display_name: model.id, created_at: createdAt, ...model };
}

/** What clients read of a list, by API: Anthropic's clients find the members of theirs beside those of OpenAI's. */
export const listShapes: Readonly<Record<Dialect, (models: readonly Model[], page: ModelPage) => { data: Model[] }>> = {
  openai(models, page) {
    const [name] = Object.keys(page);
    if (name !== undefined)
      refuse('unknown_parameter', name, 'is not a parameter of this operation without anthropic-version');
    return { data: [...models] };
  },
  anthropic(models, { limit = longestPage, after_id: after, before_id: before }) {
    const placeOf = (id: string, param: string): number => {
      const place = models.findIndex((model) => model.id === id);
      return place === -1 ? refuse('invalid_value', param, 'must be the id of a model of this list') : place;
    };
    const end = before === undefined ? models.length : placeOf(before, 'before_id');
    const start = after === undefined ? 0 : placeOf(after, 'after_id') + 1;
    const within = models.slice(start, end);
    // what comes before a model ends with the one next to it
    const page = before === undefined ? within.slice(0, limit) : within.slice(-limit);
    const ids = { first_id: page[0]?.id ?? null, last_id: page.at(-1)?.id ?? null };
    return { data: page.map(anthropicModel), has_more: within.length > page.length, ...ids };
  },
};

/** The same for one model. */
export const modelShapes: Readonly<Record<Dialect, (model: Model) => Model>> = {
  openai: (model) => model,
  anthropic: anthropicModel,
};

/** A fine-tuned model as its account sees it. */
function ownModel({ id, userId, createdAt }: FineTunedModel): Model {
  return { id, object: 'model', created: Math.floor(createdAt.getTime() / 1_000), owned_by: userId };
}

/** Whether an upstream is said to serve this model in particular, and not just any. */
function servesByPattern({ models }: Pick<Upstream, 'models'>, id: string): boolean {
  return modelMatcher(models.filter((pattern) => /[^*]/.test(pattern)))(id);
}

/** The models of all upstreams, merged and kept for a minute. */
export class ModelList {
  readonly #upstreams: readonly Upstream[];
  readonly #fineTuned: AccountModels;
  readonly #logger: Logger;
  readonly #lifetime: number;
  readonly #byPriority: readonly Upstream[];
  #cached: readonly ListedModel[] | undefined;
  #freshUntil = 0;
  #refreshing: Promise<readonly ListedModel[]> | undefined;
  readonly #withoutList = new Set<Upstream>();

  /** @param lifetime how long a list is used, in milliseconds */
  constructor(
    upstreams: readonly Upstream[],
    fineTuned: AccountModels,
    logger: Logger,
    lifetime: number = defaultLifetime,
  ) {
    this.#upstreams = upstreams;
    this.#fineTuned = fineTuned;
    this.#logger = logger;
    this.#lifetime = lifetime;
    this.#byPriority = [...upstreams].sort((a, b) => a.priority - b.priority);
  }

  /**
   * The cached list, with the fine-tuned models of an account and of no other. When it is old, it is fetched again in the background while callers still
   * get the old one, so that an upstream that hangs delays no one.
   * @throws GatewayError when no upstream has answered
   */
  async all(userId: string, dialect: Dialect): Promise<readonly Model[]> {
    // fine-tuning is OpenAI's API
    const own = dialect === 'openai' ? this.#fineTuned.of(userId).map(ownModel) : [];
    const listed = (await this.#listed()).filter((each) => isSpoken(each, dialect));
    const open = listed.filter((each) => this.#isOpen(each, userId)).map(({ model }) => model);
    // what is open comes last: it is everybody's, whoever has made it
    return [...new Map([...own, ...open].map((model) => [model.id, model])).values()];
  }

  /**
   * One model that an account may call: as it is listed, or, where no list has it, as calls of it are routed: an upstream is configured to serve it by
   * a pattern such as `gpt-*`, or any model and has no list.
   * @throws GatewayError when no upstream has answered
   */
  async find(id: string, userId: string, dialect: Dialect): Promise<Model | undefined> {
    const fineTuned = this.#fineTuned;
    const found = (await this.#listed()).find(({ model }) => model.id === id);
    if (found && isSpoken(found, dialect) && this.#isOpen(found, userId)) return found.model;
    const isServed = this.#upstreams.some(
      (upstream) =>
        upstream.speaks.includes(dialect) &&
        upstream.serves(id) &&
        (servesByPattern(upstream, id) || this.#withoutList.has(upstream)) &&
        !fineTuned.isForeign(id, userId, upstream),
    );
    const isSought = dialect === 'openai' && (fineTuned.has(id) || !isServed);
    const own = isSought ? await fineTuned.find(id, userId) : undefined;
    if (own) return ownModel(own);
    return isServed ? { ...unlisted, id } : undefined;
  }

  async #fetchAll(): Promise<readonly ListedModel[]> {
    const answers = await Promise.allSettled(
      this.#byPriority.map(async (upstream) => {
        const listed = await fetchList(upstream);
        if (listed) this.#withoutList.delete(upstream);
        else this.#withoutList.add(upstream);
        return { upstream, offered: offered(upstream, listed ?? []) };
      }),
    );
    const failures: OutboundError[] = [];
    const lists = answers.flatMap((answer, i) => {
      if (answer.status === 'fulfilled') return [answer.value];
      const error = classify(answer.reason);
      failures.push(error);
      const upstream = this.#byPriority[i]?.name;
      const { code, status } = error;
      this.#logger.warn('an upstream is left out of the list of models', { upstream, code, status });
      return [];
    });
    this.#freshUntil = Date.now() + (failures.length > 0 ? this.#lifetime / 10 : this.#lifetime);
    if (failures[0] && failures.length === this.#upstreams.length) throw failureFrom(failures[0]);
    return merged(lists);
  }

  async #refresh(): Promise<readonly ListedModel[]> {
    try {
      this.#cached = await this.#fetchAll();
      return this.#cached;
    } catch (error) {
      this.#cached = undefined;
      throw error;
    } finally {
      this.#refreshing = undefined;
    }
  }

  async #listed(): Promise<readonly ListedModel[]> {
    if (this.#cached && Date.now() < this.#freshUntil) return this.#cached;
    this.#refreshing ??= this.#refresh();
    if (!this.#cached) return this.#refreshing;
    // `#fetchAll` logs failures, and the next call reports them
    this.#refreshing.catch(() => undefined);
    return this.#cached;
  }

  /** Whether an upstream offers it to everybody; what an account has made itself, it is shown as its own. */
  #isOpen({ model: { id }, upstreams: offering }: ListedModel, userId: string): boolean {
    const fineTuned = this.#fineTuned;
    if (!fineTuned.has(id)) return true;
    const own = fineTuned.own(id, userId);
    const maker = this.#upstreams.find(({ name }) => name === own?.upstream);
    if (own && !maker?.names(id)) return false;
    return offering.some((upstream) => !fineTuned.isExclusive(id, upstream));
  }
}
