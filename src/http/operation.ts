import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { operations } from '../api.d.ts';
import type { Dialect, ErrorCode } from '../errors.ts';
import type { Principal } from '../options/principal.ts';
import type { BodyStream } from './body/body-stream.ts';
import type { Form } from './body/form.ts';
import type { ClientDisconnect } from './request.ts';

/** Where a value stands in the bytes: `start` inclusive, `end` exclusive. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Where a field of a JSON body stands, and what is in it. */
export interface FieldRange extends ByteRange {
  /** How many numbers its value has: 1 for a number itself, and otherwise those within it. */
  readonly numbers: number;
}

/** The operations that the gateway serves, as openapi.yaml names them. Those of its webhooks, `on…`, are only sent. */
type OperationId = Exclude<keyof operations, `on${Capitalize<string>}`>;

/** What the generated types say of an operation's request; as the default, what holds for each of them. */
interface Description {
  readonly parameters: {
    readonly path: Readonly<Record<string, string>>;
    readonly query?: Readonly<Record<string, unknown>>;
    readonly header?: unknown;
  };
  readonly requestBody: { readonly content: { readonly 'application/json': unknown } };
}

type Json<Content> = Content extends { content: { 'application/json': infer Value } } ? Value : undefined;

type Body<Op> = Op extends { requestBody?: infer Given } ? Json<Given> : undefined;

type Parameters<Op, In extends 'path' | 'query' | 'header'> = Op extends { parameters: { [Name in In]?: infer Given } }
  ? [NonNullable<Given>] extends [never]
    ? Readonly<Record<never, never>>
    : Readonly<NonNullable<Given>>
  : never;

/** Header parameters under the names that Node gives them. */
type Headers<Op> = {
  readonly [Name in keyof Parameters<Op, 'header'> as Lowercase<Name & string>]: Parameters<Op, 'header'>[Name];
};

/**
 * One request as an operation sees it: authenticated, parsed once, valid against openapi.yaml.
 * @typeParam Op what openapi.yaml says of the operation, out of the generated `operations`. @default any of them
 */
export interface ApiRequest<Op = Description> {
  readonly requestId: string;
  /** The API that it is for, in whose shapes it is answered. */
  readonly dialect: Dialect;
  readonly principal: Principal;
  /** Path parameters, decoded. */
  readonly params: Parameters<Op, 'path'>;
  /** Query parameters; what openapi.yaml calls a number is one. Those of a relayed call are not checked. */
  readonly query: Parameters<Op, 'query'>;
  /** The query as it came, with its `?`; empty where there is none. */
  readonly search: string;
  readonly headers: IncomingHttpHeaders & Headers<Op>;
  /**
   * The body, parsed once; `undefined` where there is none. For a relayed call it has only the fields that openapi.yaml
   * describes, and no long strings, so a relay sends {@link rawBody} on instead.
   */
  readonly body: Body<Op>;
  /** The body exactly as it came; empty where there is none, and once it has been released. */
  readonly rawBody: Buffer;
  /** Where in it the values of described fields stand, by path, for JSON that is relayed: `stream_options.include_usage`. */
  readonly fields: ReadonlyMap<string, FieldRange>;
  /** The body as a form; `undefined` where it is none, and once it has been released. */
  readonly form: Form | undefined;
  /** The body of an operation that takes it as it comes; `undefined` for any other. */
  readonly bodyStream: BodyStream | undefined;
  /**
   * Frees the bytes of the body, so that other requests may use that memory. This happens automatically when the answer has
   * ended.
   */
  releaseBody(): void;
  /** Whether the client is still there. */
  readonly client: ClientDisconnect;
  /** A relay notes here where the call went. */
  readonly relayed: RelayNote;
}

/** Where a model call went, for observers. */
export interface RelayNote {
  /** The model as the caller called it. */
  model?: string;
  /** The last upstream that was asked. */
  upstream?: string;
}

/** What an operation answers; `body` goes out as JSON. */
export interface Reply<Status extends number = number, Answer = unknown> {
  readonly status: Status;
  readonly body: Answer;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The answers with which an operation may succeed. Errors are thrown. */
export type ReplyOf<Op extends { responses: object }> = {
  [Status in keyof Op['responses'] & (200 | 201 | 202)]: Reply<Status, Json<Op['responses'][Status]>>;
}[keyof Op['responses'] & (200 | 201 | 202)];

/** An operation that answers with data and never sees the response. */
export interface DataOperation<Request = ApiRequest, Answer extends Reply = Reply> {
  handle(request: Request): Promise<Answer>;
  /**
   * How long it may take until the database counts as unavailable, in milliseconds; `null` where it does not use the
   * database, or limits its waits itself. @default 4_500
   */
  readonly databaseWait?: number | null;
}

/** An operation that writes the response itself, byte by byte. Errors thrown before the first byte are answered for it. */
export interface RelayOperation {
  /** Whether it takes its body as it comes, which nobody checks before. @default false */
  readonly streamsUp?: boolean;
  /** The API of its upstreams, in whose shapes errors are answered. @default what the request says */
  readonly dialect?: Dialect;
  /**
   * For an operation that a host has described: the names at the top of its body that are read whether or not they are described. Its body is checked as a
   * whole, and not only what is kept of others. @default openapi.yaml describes what is read, and needs no more of it
   */
  readonly reads?: readonly string[];
  /** Says who makes a request that comes with something else than a key. @param byKey says it by the key. @default the key alone says it */
  readonly authenticate?: (req: IncomingMessage, byKey: () => Promise<Principal>) => Promise<Principal>;
  relay(request: ApiRequest, res: ServerResponse): Promise<void>;
}

export type Operation = DataOperation | RelayOperation;

/** What does an operation: it gets what openapi.yaml describes as its request, and answers what it describes as its success. */
type Handler<Op extends { responses: object }> = DataOperation<ApiRequest<Op>, ReplyOf<Op>> | RelayOperation;

/** Every operation of openapi.yaml, and what does it. */
export type OperationTable = { readonly [Id in OperationId]: Handler<operations[Id]> };

/** A request under `/v1` that has ended. */
export interface EndedRequest {
  readonly requestId: string;
  readonly method: string;
  /** Its `operationId`; `none` where the path has none for this method. */
  readonly operation: string;
  /** Who made it, if that became known. */
  readonly principal: Principal | undefined;
  /** `undefined` if no answer began. */
  readonly status: number | undefined;
  /** The error that was answered, or that ended an answer. */
  readonly code: ErrorCode | undefined;
  /** Whether the client disconnected before the end of the answer. */
  readonly clientDisconnected: boolean;
  readonly durationMs: number;
  readonly relayed: RelayNote;
}

export interface RequestObserver {
  ended(request: EndedRequest): void;
}
