import type { Call } from '../http/operation.ts';
import { type ModelBody, readModelBody } from './model-body.ts';
import { readMultipartBody } from './multipart-body.ts';

/** One model endpoint: what is the same for every call of it. */
export interface Endpoint {
  /** Below an upstream's base URL: `/chat/completions`. */
  readonly path: string;
  /** Reads what the relay needs to know of a body. @throws GatewayError */
  readonly readBody: (call: Call) => ModelBody;
  /** Whether its streams can be asked for their usage. */
  readonly streamsUsage: boolean;
  /** Whether its answers hold vectors that may have to be repaired. */
  readonly answersVectors: boolean;
  /** Whether its answers hold images. */
  readonly answersImages: boolean;
}

const readJson = ({ rawBody, longStrings }: Call): ModelBody => readModelBody(rawBody, longStrings);

const readForm = (call: Call): ModelBody => readMultipartBody(call.rawBody, call.headers['content-type'] ?? '');

const text = { readBody: readJson, streamsUsage: true, answersVectors: false, answersImages: false };
const images = { readBody: readJson, streamsUsage: false, answersVectors: false, answersImages: true };

/** operationId → endpoint. */
export const endpoints = {
  createChatCompletion: { path: '/chat/completions', ...text },
  createCompletion: { path: '/completions', ...text },
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
