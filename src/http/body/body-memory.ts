import { GatewayError } from '../../errors.ts';

const retryAfter = { headers: { 'retry-after': '1' } };

/** The bytes of one body, as they come. */
export class BodyReservation {
  readonly #memory: BodyMemory;
  readonly #userId: string;
  #bytes = 0;
  #isOver = false;

  constructor(memory: BodyMemory, userId: string) {
    this.#memory = memory;
    this.#userId = userId;
  }

  /** @throws GatewayError `rate_limit_exceeded` or `overloaded` when there is no room for so many bytes more */
  grow(bytes: number): void {
    if (this.#isOver) return;
    this.#memory.take(this.#userId, bytes, this.#bytes);
    this.#bytes += bytes;
  }

  /** Nobody holds the bytes any longer. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#memory.giveBack(this.#userId, this.#bytes);
  }
}

/**
 * Bounds the bytes of all bodies that one process holds: those that are still on their way, and those that are kept until an
 * upstream answers. One account may hold as much as is free, so alone it has half of the memory, and whatever some
 * accounts hold, there is room for others.
 */
export class BodyMemory {
  readonly #size: number;
  #held = 0;
  readonly #byAccount = new Map<string, number>();

  /** @param size bytes */
  constructor(size: number) {
    this.#size = size;
  }

  open(userId: string): BodyReservation {
    return new BodyReservation(this, userId);
  }

  /** @param inBody what of the account's bytes belongs to the same body */
  take(userId: string, bytes: number, inBody: number): void {
    const own = this.#byAccount.get(userId) ?? 0;
    if (own + bytes > this.#size - this.#held) throw this.#refusal(own > inBody);
    this.#held += bytes;
    this.#byAccount.set(userId, own + bytes);
  }

  giveBack(userId: string, bytes: number): void {
    if (bytes === 0) return;
    const left = (this.#byAccount.get(userId) ?? 0) - bytes;
    this.#held -= bytes;
    if (left > 0) this.#byAccount.set(userId, left);
    else this.#byAccount.delete(userId);
  }

  /** An account that sends several bodies at once can do something about it; any other meets a gateway that is full. */
  #refusal(hasOthers: boolean): GatewayError {
    return hasOthers
      ? new GatewayError(
          'rate_limit_exceeded',
          'This account sends too many bytes at once; send fewer large requests at a time and try again in 1 s',
          retryAfter,
        )
      : new GatewayError(
          'overloaded',
          'The gateway holds as many bytes of requests as it can; try again in 1 s',
          retryAfter,
        );
  }
}
