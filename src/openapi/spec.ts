import { readDocument } from './read-document.ts';

/** The methods an OpenAPI path item may have. */
export const specMethods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const;

type SpecMethod = (typeof specMethods)[number];

/** A JSON schema of the document; `$ref`s in it are JSON pointers such as `#/components/schemas/ErrorResponse`. */
export type SpecSchema = Readonly<Record<string, unknown>>;

export interface SpecMediaType {
  readonly schema?: SpecSchema;
  readonly examples?: Readonly<Record<string, { readonly value?: unknown; readonly $ref?: string }>>;
}

/** One operation: a method of a path, or of a webhook. */
export interface SpecOperation {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly Readonly<Record<string, unknown>>[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Readonly<Record<string, SpecMediaType>>;
    /** The JSON that an operation takes in place of a form. Of two media types in `content`, generators of clients take JSON for both. */
    readonly 'x-json-body'?: SpecMediaType;
    /** What an operation takes in place of JSON, by media type. */
    readonly 'x-other-bodies'?: Readonly<Record<string, SpecMediaType>>;
  };
  readonly responses: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Whether the operation goes beyond the interface this gateway implements. */
  readonly 'x-extension'?: boolean;
  /** What an API key must be good for to call it. */
  readonly 'x-scope'?: string;
}

/** The operations of one path or webhook, by method. */
export type SpecPathItem = Readonly<Partial<Record<SpecMethod, SpecOperation>>> & {
  readonly parameters?: readonly Readonly<Record<string, unknown>>[];
  /** What passes if a client opens a WebSocket there. */
  readonly 'x-websocket'?: object;
};

/** openapi.yaml, parsed; `$ref`s are left as they stand. */
export interface Spec {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, SpecPathItem>>;
  readonly webhooks: Readonly<Record<string, SpecPathItem>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>> & {
    readonly schemas: Readonly<Record<string, SpecSchema>>;
  };
  /** Paths that the gateway knows and does not serve, with all below them. The reason is a sentence without its full stop. */
  readonly 'x-not-served': readonly { readonly paths: readonly string[]; readonly reason: string }[];
}

/** What an operation says of a JSON body. */
export function jsonBodyOf({ requestBody }: SpecOperation): SpecMediaType | undefined {
  return requestBody?.content['application/json'] ?? requestBody?.['x-json-body'];
}

/** Every kind of body that an operation takes, by media type. */
export function bodiesOf({ requestBody }: SpecOperation): Readonly<Record<string, SpecMediaType>> {
  const { content = {}, 'x-json-body': json, 'x-other-bodies': others } = requestBody ?? {};
  return { ...content, ...(json && { 'application/json': json }), ...others };
}

let shared: Spec | undefined;

/** The interface of this gateway, read once in a process. Do not change it. */
export function sharedSpec(): Spec {
  shared ??= readDocument() as Spec;
  return shared;
}
