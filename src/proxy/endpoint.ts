import type { ApiRequest } from '../http/operation.ts';
import type { StoredKind } from './ownership/stored-objects.ts';
import { type ModelBody, readModelBody } from './request/model-body.ts';
import { readMultipartBody } from './request/multipart-body.ts';

/** One model endpoint: what is the same for every call of it. */
export interface Endpoint {
  /** Below an upstream's base URL: `/chat/completions`. */
  readonly path: string;
  /** Reads what the relay needs to know of a body. @throws GatewayError */
  readonly readBody: (call: ApiRequest) => ModelBody;
  /** The key that holds the text in its streams. */
  readonly textKey?: 'delta' | 'text';
  /** Whether its streams can be asked for their usage. */
  readonly streamsUsage: boolean;
  /** Whether its answers hold vectors that may have to be repaired. */
  readonly answersVectors: boolean;
  /** Whether its answers hold images. */
  readonly answersImages: boolean;
  /** Whether its answers, and their streams, are those of the Responses API. @default false */
  readonly answersResponse?: boolean;
  /** What its upstream may keep of a call, and whether it does so unless the caller says otherwise. @default nothing */
  readonly stores?: { readonly kind: StoredKind; readonly byDefault: boolean };
  /** Whether a call may go on from a stored response or conversation. @default false */
  readonly continues?: boolean;
  /** Whether its calls cost nothing: they are recorded with 0 tokens. @default false */
  readonly isFree?: boolean;
}

function readJson({ rawBody, fields, body }: ApiRequest): ModelBody {
  return readModelBody(rawBody, fields, (body as { readonly prompt?: unknown }).prompt);
}

function readForm({ form }: ApiRequest): ModelBody {
  if (form) return readMultipartBody(form);
  throw new Error('openapi.yaml: this operation takes something else than a form');
}

const text = { readBody: readJson, streamsUsage: true, answersVectors: false, answersImages: false };
const images = { readBody: readJson, streamsUsage: false, answersVectors: false, answersImages: true };

const responses = { ...text, textKey: 'delta', streamsUsage: false, answersResponse: true, continues: true } as const;

/** operationId → endpoint. */
export const endpoints = {
  createChatCompletion: {
    path: '/chat/completions',
    ...text,
    textKey: 'delta',
    stores: { kind: 'chat_completion', byDefault: false },
  },
  createCompletion: { path: '/completions', ...text, textKey: 'text' },
  createResponse: { path: '/responses', ...responses, stores: { kind: 'response', byDefault: true } },
  countResponseInputTokens: { path: '/responses/input_tokens', ...responses, isFree: true },
  compactResponse: { path: '/responses/compact', ...responses },
  createImage: { path: '/images/generations', ...images },
  createImageEdit: { path: '/images/edits', ...images, readBody: readForm },
  createImageVariation: { path: '/images/variations', ...images, readBody: readForm },
  createEmbedding: {
    path: '/embeddings',
    readBody: readJson,
    streamsUsage: false,
    answersVectors: true,
    answersImages: false,
  },
} as const satisfies Readonly<Record<string, Endpoint>>;
