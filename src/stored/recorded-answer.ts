import { type BodySink, type OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { failure } from '../proxy/failure.ts';
import { isEncoded } from '../proxy/headers.ts';
import {
  AnsweredItems,
  type AnswerPart,
  answeredContainer,
  answeredObjects,
  answeredParts,
  type CreatedObject,
  CreatedObjectSearch,
  type CreationOptions,
  type ShownObject,
  type ShownObjects,
} from './answer-ids.ts';
import type { MadeRow } from './kind-rows.ts';
import { kinds, runsOn } from './kinds.ts';
import type { PartKind } from './parts.ts';
import type { ItemKeeper, StoredObjects } from './service.ts';
import type { StoredObject } from './stored-object.ts';

type Answer = Pick<OutboundResponse, 'headers' | 'data'>;

/**
 * The answer to a call that creates a stored object. Its bytes are passed on once the gateway has stored which account owns
 * the object and, for a background response, that its usage is to be counted: no client sees an id that no account owns. In a
 * stream, what comes before the event with the id passes at once. The end of a response is passed on once its items are stored, too. If
 * the owner cannot be stored, the body breaks off with that error as the `cause`.
 * @throws GatewayError `upstream_invalid_response` where the id cannot be read, or, with `needsOwner`, is that of another object
 */
export function ownedResponse<A extends Answer>(
  response: A,
  object: Omit<StoredObject, 'id'>,
  objects: Pick<StoredObjects, 'add' | 'addShown'>,
  options: CreationOptions = {},
) {
  if (isEncoded(response.headers)) {
    response.data.destroy();
    throw failure('upstream_invalid_response');
  }
  const { kind } = object;
  const { background, needsOwner, onOwned } = options;
  const { bringsItems, work } = kinds[kind];
  let keeper: ItemKeeper = object;
  return recorded(response, {
    search: new CreatedObjectSearch(kind, options),
    async record({ status, ...described }) {
      const { id } = described;
      keeper = { ...object, id };
      // what is worked on for long is counted by a poll, whatever the first answer says
      const isFollowed = work !== undefined || runsOn(kind, status);
      const usage = background && isFollowed ? background.usage : undefined;
      const isOwn = await objects.add({ ...object, ...described, ...(usage && { background: usage }) });
      if (!isOwn && needsOwner) throw failure('upstream_invalid_response');
      if (isOwn) onOwned?.();
      if (usage && isOwn) background?.onRunning(id);
    },
    ...(bringsItems && { shows: new AnsweredItems(bringsItems) }),
    storeShown: (shown) => objects.addShown(shown, keeper),
  });
}

/** Sees a body while it passes. Must not throw. */
export interface BodyWatcher {
  read(chunk: Buffer): void;
  /** The body has come to its end. */
  onEnd(): void;
}

/** What an answer shows of an object: parts of one kind, and the member that is a list of them. */
export interface ShownParts {
  readonly kind: PartKind;
  /** @default the answer is the part */
  readonly list?: 'output' | 'data' | undefined;
}

/** An answer that shows parts of an object: the client gets the last bytes of these when it is stored that the account has been shown them. */
export function shownParts<A extends Answer>(
  response: A,
  { kind, list }: ShownParts,
  keeper: ItemKeeper,
  objects: Pick<StoredObjects, 'addShown'>,
  watcher?: BodyWatcher,
) {
  // whose a file is says who has sent it up
  if (isEncoded(response.headers) || kind === 'file' || kind === 'file_batch') return response;
  return recorded(response, {
    shows: kind === 'item' ? new AnsweredItems(list ?? 'data') : answeredParts(kind, list),
    storeShown: (shown) => objects.addShown(shown, keeper),
    watcher,
  });
}

/** A message that tools of the provider may have worked on in a container: the client gets its id when it is stored that the account has been shown it. */
export function shownContainer<A extends Answer>(
  response: A,
  keeper: ItemKeeper,
  objects: Pick<StoredObjects, 'addShown'>,
) {
  if (isEncoded(response.headers)) return response;
  return recorded(response, {
    shows: answeredContainer(),
    storeShown: (shown) => objects.addShown(shown, keeper),
  });
}

/**
 * An answer that shows what its upstream has made: the client gets the id of it when it is stored that the account owns it. If the owner of a
 * model cannot be stored, the body breaks off: nobody else may call it.
 */
export function shownMade<A extends Answer>(
  response: A,
  row: MadeRow,
  keeper: ItemKeeper,
  objects: Pick<StoredObjects, 'addShown' | 'addMade'>,
  watcher?: BodyWatcher,
) {
  if (isEncoded(response.headers)) {
    if (!row.models) return response;
    response.data.destroy();
    throw failure('upstream_invalid_response');
  }
  return recorded(response, {
    shows: answeredObjects(row),
    storeShown: (shown) => (row.models ? objects.addMade(shown, keeper) : objects.addShown(shown, keeper)),
    watcher,
  });
}

/** What is read of an answer, and what is stored before it is passed on. */
interface Recording {
  /** Finds the object that it creates. @default it creates none */
  readonly search?: CreatedObjectSearch;
  /** Stores whose that is. */
  readonly record?: (created: CreatedObject) => Promise<void>;
  /** Finds what it shows. @default it shows nothing */
  readonly shows?: ShownObjects;
  /** Stores that the account is shown this. If it rejects, the body breaks off. */
  readonly storeShown: (shown: readonly ShownObject[]) => Promise<void>;
  /** @default nobody else reads it */
  readonly watcher?: BodyWatcher | undefined;
}

/** An answer of which the client gets no id before that is stored. */
function recorded<A extends Answer>(response: A, recording: Recording) {
  return { ...response, data: new RecordedBody(response.data, recording).out };
}

/** Bytes that wait for their turn. */
interface WaitingPart extends AnswerPart {
  /** What must be stored before the bytes are passed on. */
  readonly shown: readonly ShownObject[];
}

const nothing = Buffer.alloc(0);

/** One answer, whose bytes wait where something in them has to be stored first. */
class RecordedBody implements BodySink {
  readonly out: ResponseBody;
  readonly #source: ResponseBody;
  readonly #recording: Recording;
  /** In the order in which they came. */
  #waiting: WaitingPart[] = [];
  #isStoring = false;
  #isFlowing = true;
  #isPassingOn = false;
  #outcome: 'end' | OutboundError | undefined;

  constructor(source: ResponseBody, recording: Recording) {
    this.#source = source;
    this.#recording = recording;
    this.out = new ResponseBody({
      pause: () => {
        this.#isFlowing = false;
      },
      resume: () => {
        this.#isFlowing = true;
        this.#passOn();
        this.#resumeSource();
      },
      abort: () => source.destroy(),
    });
    source.flowTo(this);
  }

  onChunk(chunk: Buffer): boolean {
    // what comes after a failure is dropped
    if (this.#outcome !== undefined) return false;
    const { search, watcher } = this.#recording;
    watcher?.read(chunk);
    this.#take(() => search?.read(chunk) ?? [{ bytes: chunk }]);
    this.#passOn();
    return this.#isFlowing && !this.#isStoring && this.#outcome === undefined;
  }

  onEnd(): void {
    const { search, watcher } = this.#recording;
    watcher?.onEnd();
    this.#take(() => search?.end() ?? []);
    this.#finish('end');
  }

  onError(error: OutboundError): void {
    // what the search holds is not passed on: the id may be in it
    this.#finish(error);
  }

  #take(read: () => readonly AnswerPart[]): void {
    try {
      for (const part of read()) this.#waiting.push({ ...part, shown: this.#recording.shows?.read(part.bytes) ?? [] });
    } catch (error) {
      this.#source.destroy();
      this.#finish(error as OutboundError);
    }
  }

  #finish(outcome: 'end' | OutboundError): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#waiting.push({ bytes: nothing, shown: this.#recording.shows?.rest() ?? [] });
    this.#passOn();
  }

  /** Passes on what waits, up to where something has to be stored, or the client's side is full. */
  #passOn(): void {
    if (this.#isPassingOn) return;
    this.#isPassingOn = true;
    try {
      while (this.#isFlowing && !this.#isStoring) {
        const part = this.#waiting.shift();
        if (!part) break;
        if (part.created || part.shown.length > 0) void this.#storeFirst(part);
        else if (part.bytes.length > 0) this.out.push(part.bytes);
      }
    } finally {
      this.#isPassingOn = false;
    }
    const isDone = this.#waiting.length === 0 && !this.#isStoring;
    if (isDone && this.#outcome !== undefined) this.out.settle(this.#outcome);
  }

  #resumeSource(): void {
    if (this.#isFlowing && !this.#isStoring && this.#outcome === undefined) this.#source.resume();
  }

  async #storeFirst({ bytes, created, shown }: WaitingPart): Promise<void> {
    const { record, storeShown } = this.#recording;
    let work = 'recorded';
    this.#isStoring = true;
    try {
      if (created) await record?.(created);
      if (shown.length > 0) await storeShown(shown);
      work = 'sent on';
      this.#isStoring = false;
      this.#waiting.unshift({ bytes, shown: [] });
      this.#passOn();
      this.#resumeSource();
    } catch (cause) {
      this.#fail(new OutboundError('unknown', `an answer could not be ${work}`, { cause }));
    }
  }

  #fail(error: OutboundError): void {
    this.#outcome = error;
    this.#waiting = [];
    this.#source.destroy();
    this.out.settle(error);
  }
}
