import { expect } from 'chai';
import { operations } from '../../../support/spec.ts';
import { until } from '../../../support/until.ts';
import { type WireAnswer, WireClient, type WireRequest } from './exchange.ts';

// biome-ignore lint/suspicious/noExplicitAny: each request knows the shape of its answer
type Json = any;

/** What a request of a conversation may have beside its target. */
export interface Asked {
  readonly headers?: Readonly<Record<string, string>>;
  /** A string or bytes go as they are, anything else as JSON. */
  readonly body?: unknown;
  readonly query?: string;
}

/** An answer without what differs each time: ids, times, secrets. */
export interface Comparable {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
  readonly continued: boolean;
}

/** Who talks, and where. */
export interface Talker {
  readonly port: number;
  /** What stands before every path. */
  readonly prefix: string;
  readonly userId: string;
  readonly key: string;
}

const volatile: readonly (readonly [RegExp, string])[] = [
  [/\b(wh|evt|dlv|key|rec|use|req|prc)_[0-9a-z]{26}\b/g, '$1_…'],
  [/\bemg_[\w-]+/g, 'emg_…'],
  [/\bupload_\w+/g, 'upload_…'],
  [/\bwhsec_[\w+/=]+/g, 'whsec_…'],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>'],
  [/"(duration_ms|last_used_at|prefix|hint)":("[^"]*"|\d+|null)/g, '"$1":…'],
  [
    /"(event_loop_lag_seconds|\w+_in_progress|clock_skew_seconds|last_sweep_at)":("[^"]*"|[-\d.e]+|<time>|null)/g,
    '"$1":…',
  ],
  [/"requests":\d+,"errors":.*?"time_to_first_byte_seconds":\{[^}]*\}/g, '"requests":…'],
  [/\{"due":[^}]*\}/g, '{"due":…}'],
  [/("webhook-(?:timestamp|signature)":|"x-service-signature":)"[^"]*"/g, '$1…'],
];

/** A key as the server sees it, and what came back, request by request under a name of each. */
export class Conversation {
  readonly answers = new Map<string, Comparable>();
  /** operationIds that were asked for. */
  readonly asked = new Set<string>();
  readonly talker: Talker;
  readonly #client: WireClient;

  constructor(talker: Talker) {
    this.talker = talker;
    this.#client = new WireClient(talker.port);
  }

  /**
   * Asks for an operation of openapi.yaml, with the account's key.
   * @param params of its path, in their order
   * @returns the answer's JSON, or its text where it is none
   */
  async operation(
    status: number,
    operationId: string,
    params: readonly string[] = [],
    asked: Asked = {},
  ): Promise<Json> {
    const found = operations.find(({ operation }) => operation.operationId === operationId);
    if (!found) throw new Error(`openapi.yaml has no ${operationId}`);
    this.asked.add(operationId);
    const left = [...params];
    const path = found.path.replace(/\{\w+\}/g, () => left.shift() ?? '');
    const headers = { authorization: `Bearer ${this.talker.key}`, ...asked.headers };
    return this.ask(`${operationId} ${status}`, status, found.method.toUpperCase(), path + (asked.query ?? ''), {
      ...asked,
      headers,
    });
  }

  /** Asks for a path; nothing is added to its headers but Host, an id, and what the body needs. */
  async ask(name: string, status: number, method: string, path: string, asked: Asked = {}): Promise<Json> {
    const { headers = {}, body } = asked;
    const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const all = {
      host: `127.0.0.1:${this.talker.port}`,
      'x-request-id': 'asked-by-a-test',
      'content-length': bytes === undefined ? 0 : Buffer.byteLength(bytes),
      ...(bytes !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    };
    const target = `${this.talker.prefix}${path}`;
    const raw = Object.entries(all).flatMap(([field, value]) => [field, String(value)]);
    return this.wire(name, status, { method, target, headers: raw, ...(bytes !== undefined && { body: bytes }) });
  }

  /** Asks in the very bytes that are given. */
  async wire(name: string, status: number, sent: WireRequest): Promise<Json> {
    const answer = await this.#client.send(sent);
    const text = answer.body.toString();
    expect(answer.status, `${name}: ${text}`).to.equal(status);
    let unique = name;
    for (let i = 2; this.answers.has(unique); i += 1) unique = `${name} (${i})`;
    this.answers.set(unique, this.#comparable(answer));
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }

  /** Waits until a recovery has ended, without noting how often that was asked. */
  async ended(webhookId: string, id: string): Promise<void> {
    const { port, prefix, key } = this.talker;
    const url = `http://127.0.0.1:${port}${prefix}/v1/webhooks/${webhookId}/recoveries/${id}`;
    const get = async () => (await fetch(url, { headers: { authorization: `Bearer ${key}` } })).json();
    await until(async () => ((await get()) as { state: string }).state !== 'running');
  }

  close(): void {
    this.#client.close();
  }

  #withoutVolatile(text: string): string {
    const { userId, prefix, port } = this.talker;
    const own = text.replaceAll(userId, 'usr_…').replaceAll(`127.0.0.1:${port}`, '<host>');
    const below = prefix ? own.replaceAll(prefix, '') : own;
    return volatile.reduce((rest, [pattern, shown]) => rest.replace(pattern, shown), below);
  }

  #comparable({ status, headers, body, continued }: WireAnswer): Comparable {
    const shown = headers
      .filter(([name]) => name !== 'date')
      .map(([name, value]) => {
        // as long as it says; how long that is follows from the body, but for HEAD
        const exact = name === 'content-length' && Number(value) === body.length;
        return `${name}: ${exact ? 'exact' : this.#withoutVolatile(value)}`;
      });
    return { status, headers: shown, body: this.#withoutVolatile(body.toString()), continued };
  }
}
