/** The account of webhooks whose account is not known yet. */
export const unknownAccount = '';

/** Webhooks with a number each, by account. Keeps accounts, and the webhooks of each account, in the order in which they were put. */
export class WebhooksByAccount {
  readonly #accounts = new Map<string, Map<string, number>>();
  /** The account of each webhook. */
  readonly #owners = new Map<string, string>();

  /** How many webhooks there are. */
  get size(): number {
    return this.#owners.size;
  }

  accounts(): Iterable<readonly [userId: string, webhooks: ReadonlyMap<string, number>]> {
    return this.#accounts;
  }

  hasAccount(userId: string): boolean {
    return this.#accounts.has(userId);
  }

  accountOf(webhookId: string): string | undefined {
    return this.#owners.get(webhookId);
  }

  /** The webhook's number. */
  get(webhookId: string): number | undefined {
    return this.#accounts.get(this.#owners.get(webhookId) ?? unknownAccount)?.get(webhookId);
  }

  /** A webhook that is already in it keeps its place, unless it is removed first. */
  put(webhookId: string, userId: string, serial: number): void {
    const webhooks = this.#accounts.get(userId) ?? new Map<string, number>();
    this.#accounts.set(userId, webhooks.set(webhookId, serial));
    this.#owners.set(webhookId, userId);
  }

  remove(webhookId: string): void {
    const userId = this.#owners.get(webhookId);
    if (userId === undefined) return;
    this.#owners.delete(webhookId);
    const webhooks = this.#accounts.get(userId);
    webhooks?.delete(webhookId);
    if (webhooks?.size === 0) this.#accounts.delete(userId);
  }

  moveAccountToEnd(userId: string): void {
    const webhooks = this.#accounts.get(userId);
    if (!webhooks) return;
    this.#accounts.delete(userId);
    this.#accounts.set(userId, webhooks);
  }
}
