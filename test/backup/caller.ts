/** Makes one model call after the other. */
export class Caller {
  /** How many calls were answered 200. */
  answered = 0;
  #stopped = false;
  #running: Promise<unknown> = Promise.resolve();

  /** @param url of the gateway's server */
  start(url: string, key: string): void {
    this.#running = Promise.all(Array.from({ length: 2 }, () => this.#callOn(url, key)));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #callOn(url: string, key: string): Promise<void> {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] });
    while (!this.#stopped) {
      const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body });
      await response.arrayBuffer();
      if (response.status === 200) this.answered += 1;
    }
  }
}
