import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Form } from './body/form/form.ts';
import type { ClientDisconnect } from './client-disconnect.ts';

/**
 * What an API key may be used for; none of them includes another. `x-scope` in openapi.yaml says which one an operation needs.
 * `models`: model calls and what they cost. `webhooks`: the account's webhooks and events. `keys`: its API keys.
 * `events:publish`: events and payments of any account, for the services of the operator. `admin`: acts for any account,
 * with its keys and its credits.
 */
export const scopes = Object.freeze(['models', 'webhooks', 'events:publish', 'keys', 'admin'] as const);

export type Scope = (typeof scopes)[number];

/** What an account's owner may do with it: everything that is about no other account. */
export const accountScopes: readonly Scope[] = Object.freeze(['models', 'webhooks', 'keys'] as const);

/** Whose request it is. */
export interface Principal {
  /** The account; everything stored belongs to one. */
  readonly userId: string;
  /** The API key used, `key_…`; absent where the host authenticates by other means. */
  readonly keyId?: string;
  /** What it may do. @default `models`, `webhooks` and `keys`, never what reaches other accounts */
  readonly scopes?: readonly Scope[];
  /** The only models it may call, as callers name them. @default any */
  readonly models?: readonly string[];
  /** When its key ends. @default never */
  readonly expiresAt?: Date;
}

/** Where a value stands in the bytes: `start` inclusive, `end` exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Where a field of a JSON body stands, and what is in it. */
export interface FieldSpan extends Span {
  /** How many numbers its value has: 1 for a number itself, and otherwise those within it. */
  readonly numbers: number;
}

/** One checked request, as an operation sees it: authenticated, parsed once, valid against openapi.yaml. */
export interface ApiRequest<Body = unknown> {
  readonly requestId: string;
  readonly principal: Principal;
  /** Path parameters, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  /**
   * The body parsed once; `undefined` where there is none. Never what a relay sends on: it has of the body only what
   * openapi.yaml describes, and no long strings.
   */
  readonly body: Body;
  /** The body exactly as it came; empty where there is none, and once it has been released. */
  readonly rawBody: Buffer;
  /** Where in it the values of described fields stand, by path, for JSON that is relayed: `stream_options.include_usage`. */
  readonly fields: ReadonlyMap<string, FieldSpan>;
  /** The body as a form; `undefined` where it is none, and once it has been released. */
  readonly form: Form | undefined;
  /** Lets go of the bytes, which other requests may then take the room of. It happens by itself when the answer has ended. */
  releaseBody(): void;
  readonly client: ClientDisconnect;
}

/** What an operation answers; `body` goes out as JSON. */
export interface Reply {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An operation that answers with data and never sees the response. */
export interface DataOperation {
  // biome-ignore lint/suspicious/noExplicitAny: the validator has proved the body's type against openapi.yaml
  readonly handle: (call: ApiRequest<any>) => Promise<Reply>;
  /**
   * How long it may take until the database counts as unavailable, in milliseconds; `null` where it does without the
   * database, or bounds its waits itself. @default 4_500
   */
  readonly databaseWait?: number | null;
}

/** An operation that writes the response itself, byte by byte. Errors thrown before the first byte are answered for it. */
export interface RelayOperation {
  // biome-ignore lint/suspicious/noExplicitAny: the validator has proved the body's type against openapi.yaml
  readonly relay: (call: ApiRequest<any>, res: ServerResponse) => Promise<void>;
}

export type Operation = DataOperation | RelayOperation;

/** operationId of openapi.yaml → what does it. */
export type OperationTable = Readonly<Record<string, Operation>>;
