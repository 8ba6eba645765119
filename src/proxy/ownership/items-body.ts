import { type BodySink, ResponseBody } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import type { ItemIds } from './item-ids.ts';

type SourceBody = Pick<ResponseBody, 'flowTo' | 'resume' | 'destroy'>;

/** Stores that an account is shown these items. Never rejects. */
type StoreItems = (ids: readonly string[]) => Promise<void>;

/** One answer, whose bytes wait where the ids of its items have to be stored first. */
class ItemsBody implements BodySink {
  readonly out: ResponseBody;
  readonly #source: SourceBody;
  readonly #ids: ItemIds;
  readonly #store: StoreItems;
  #isStoring = false;
  #flowing = true;
  /** What has come while ids are stored. */
  #held: Buffer[] = [];
  #outcome: 'end' | OutboundError | undefined;

  constructor(source: SourceBody, ids: ItemIds, store: StoreItems) {
    this.#source = source;
    this.#ids = ids;
    this.#store = store;
    this.out = new ResponseBody({
      pause: () => {
        this.#flowing = false;
      },
      resume: () => {
        this.#flowing = true;
        if (!this.#isStoring) source.resume();
      },
      abort: () => source.destroy(),
    });
  }

  onChunk(chunk: Buffer): boolean {
    if (this.#isStoring) {
      this.#held.push(chunk);
      return false;
    }
    const ids = this.#ids.read(chunk);
    if (ids.length > 0) {
      this.#storeFirst(ids, () => this.out.push(chunk));
      return false;
    }
    this.out.push(chunk);
    return this.#flowing;
  }

  onEnd(): void {
    this.#end('end');
  }

  onError(error: OutboundError): void {
    this.#end(error);
  }

  #end(outcome: 'end' | OutboundError): void {
    if (this.#isStoring) {
      this.#outcome = outcome;
      return;
    }
    const settle = () => this.out.settle(outcome);
    const ids = this.#ids.rest();
    if (ids.length > 0) this.#storeFirst(ids, settle);
    else settle();
  }

  #storeFirst(ids: readonly string[], then: () => void): void {
    this.#isStoring = true;
    this.#store(ids)
      .then(() => {
        this.#isStoring = false;
        then();
        this.#goOn();
      })
      .catch((cause) => {
        this.#held = [];
        this.#source.destroy();
        this.out.settle(new OutboundError('unknown', 'an answer could not be sent on', { cause }));
      });
  }

  #goOn(): void {
    const waiting = this.#held;
    this.#held = [];
    for (const chunk of waiting) this.onChunk(chunk);
    if (this.#isStoring) return;
    if (this.#outcome !== undefined) this.#end(this.#outcome);
    else if (this.#flowing) this.#source.resume();
  }
}

/** The body of an answer that shows items: the client gets the ids of none before they are stored. */
export function itemsBody(body: SourceBody, ids: ItemIds, store: StoreItems): ResponseBody {
  const items = new ItemsBody(body, ids, store);
  body.flowTo(items);
  return items.out;
}
