import { GatewayError } from '../../errors.ts';

const retryAfter = { headers: { 'retry-after': '1' } };

/** The memory that one body takes. */
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

  /** Gives the memory back. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#memory.giveBack(this.#userId, this.#bytes);
  }
}

/**
 * Limits how many bytes of bodies one process holds: those that are still arriving, and those that are kept until an
 * upstream answers. An account may hold as much as is still free. So one account alone gets half of the memory, and there
 * is always some left for another.
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

  /** @param inBody how many of the account's bytes belong to the same body */
  take(userId: string, bytes: number, inBody: number): void {
    const held = this.#byAccount.get(userId) ?? 0;
    if (held + bytes > this.#size - this.#held) throw this.#refusal(held > inBody);
    this.#held += bytes;
    this.#byAccount.set(userId, held + bytes);
  }

  giveBack(userId: string, bytes: number): void {
    if (bytes === 0) return;
    const held = (this.#byAccount.get(userId) ?? 0) - bytes;
    this.#held -= bytes;
    if (held > 0) this.#byAccount.set(userId, held);
    else this.#byAccount.delete(userId);
  }

  /** An account with several bodies at once can send fewer; for any other the gateway is full. */
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
