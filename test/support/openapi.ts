import { readFileSync } from 'node:fs';
import { CORE_SCHEMA, load } from 'js-yaml';

export const specMethods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'] as const;

export type SpecMethod = (typeof specMethods)[number];

/** A JSON schema of the document; its `$ref`s are JSON pointers. */
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
    readonly 'x-json-body'?: SpecMediaType;
    readonly 'x-other-bodies'?: Readonly<Record<string, SpecMediaType>>;
  };
  readonly responses: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly 'x-extension'?: boolean;
  readonly 'x-scope'?: string;
}

export type SpecPathItem = Readonly<Partial<Record<SpecMethod, SpecOperation>>> & {
  readonly parameters?: readonly Readonly<Record<string, unknown>>[];
  readonly 'x-websocket'?: object;
};

/** openapi.yaml, as far as tests read it. */
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
  readonly 'x-not-served': readonly { readonly paths: readonly string[]; readonly reason: string }[];
}

/** openapi.yaml, read anew at each call. */
export function loadSpec(): Spec {
  const text = readFileSync(new URL('../../openapi.yaml', import.meta.url), 'utf8');
  return load(text, { schema: CORE_SCHEMA }) as Spec;
}

/** The same, read once. Do not change it. */
export const spec = loadSpec();
