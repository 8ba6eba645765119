import { anthropicPath, type Dialect } from '../errors.ts';
import type { ApiRequest, ByteRange } from '../http/operation.ts';
import type { EndpointRow } from '../options/endpoints.ts';
import { namesIn } from '../options/kinds.ts';
import { AmountReader } from './answer-amounts.ts';
import { type AnswerReader, anyResult, type LeastResult, leastResult } from './answer-body.ts';
import { MessageEnd, MessageReader, readMessageBody } from './messages.ts';
import {
  anyPath,
  charactersIn,
  estimateSeconds,
  limitsOfAny,
  type ModelBody,
  readModelBody,
  readMultipartBody,
} from './model-body.ts';
import type { StreamEnd } from './stream-end.ts';

/** What upstreams keep of model calls. */
export type KeptKind = 'response' | 'chat_completion';

/** One model endpoint: what is the same for every call of it. */
export interface Endpoint {
  /** Below an upstream's base URL: `/chat/completions`. */
  readonly path: string;
  /** The API that its upstreams speak. @default that of its path */
  readonly dialect?: Dialect;
  /** Reads what the relay needs to know of a body. @throws GatewayError */
  readonly readBody: (request: ApiRequest, path: string) => ModelBody;
  /** What its answers have at least, where they are JSON or events. */
  readonly result: LeastResult;
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
  /** What reads the usage and the end of an answer. @default the meter, as OpenAI's answers have them */
  readonly createReader?: () => AnswerReader;
  /** How its streams end. @default as the others of OpenAI's API. @param requestId of the call */
  readonly createStreamEnd?: (requestId: string) => StreamEnd;
  /** What its upstream may keep of a call, and whether it does so unless the caller says otherwise. @default nothing */
  readonly stores?: { readonly kind: KeptKind; readonly byDefault: boolean };
  /** Whether a call can continue a stored response or conversation. @default false */
  readonly continues?: boolean;
  /** Whether a call can name what an upstream keeps in a field of its own. @default only one that continues something can */
  readonly names?: boolean;
  /** What its answers are, if not always JSON: texts, which are held until they are whole, or bytes, which are sent as they come. */
  readonly answers?: 'text' | 'bytes';
  /** Whether the length of its answers tells no tokens, unless they are streams. @default false */
  readonly isUnmeasured?: boolean;
  /** Whether its answers say how many units they have. @default false */
  readonly answersUnits?: boolean;
  /** What counts where the upstream reports no usage, in place of tokens. */
  readonly unit?: 'seconds' | 'characters';
  /** Whether its calls cost nothing: they are recorded with 0 tokens. @default false */
  readonly isFree?: boolean;
}

const text = { readBody: readModelBody, streamsUsage: true, answersVectors: false, answersImages: false };
const plain = { readBody: readModelBody, streamsUsage: false, answersVectors: false, answersImages: false };
const recordings = {
  ...plain,
  readBody: readRecording,
  result: leastResult(['text', 'segments', 'words'], ['type', 'choices']),
  textKey: 'delta',
  answers: 'text',
  unit: 'seconds',
} as const;
const images = {
  ...plain,
  result: leastResult(['data', 'images', 'output'], ['type', 'b64_json']),
  answersImages: true,
};
const responses = {
  ...text,
  result: leastResult(['output', 'id'], ['type', 'response']),
  textKey: 'delta',
  streamsUsage: false,
  answersResponse: true,
  continues: true,
} as const;
const messages = { ...plain, readBody: readMessageBody } as const;

/** The API that the upstreams of an endpoint speak. */
export function spokenBy({ path, dialect }: Pick<Endpoint, 'path' | 'dialect'>): Dialect {
  return dialect ?? (anthropicPath.test(path) ? 'anthropic' : 'openai');
}

/** operationId → endpoint. */
export const endpoints = {
  createChatCompletion: {
    path: '/chat/completions',
    ...text,
    result: leastResult(['choices']),
    textKey: 'delta',
    stores: { kind: 'chat_completion', byDefault: false },
  },
  // llama.cpp answers `content` where its base URL has no `/v1`
  createCompletion: { path: '/completions', ...text, result: leastResult(['choices', 'content']), textKey: 'text' },
  createResponse: { path: '/responses', ...responses, stores: { kind: 'response', byDefault: true } },
  countResponseInputTokens: {
    path: '/responses/input_tokens',
    ...responses,
    result: leastResult(['input_tokens']),
    isFree: true,
  },
  compactResponse: { path: '/responses/compact', ...responses },
  createImage: { path: '/images/generations', ...images },
  createImageEdit: { path: '/images/edits', ...images, readBody: readImageEdit },
  createImageVariation: { path: '/images/variations', ...images, readBody: readForm },
  createEmbedding: {
    path: '/embeddings',
    ...plain,
    result: leastResult(['data', 'embeddings', 'embedding']),
    answersVectors: true,
  },
  createModeration: { path: '/moderations', ...plain, result: leastResult(['results']), isFree: true },
  createSpeech: {
    path: '/audio/speech',
    ...plain,
    readBody: readSpeech,
    result: leastResult(['audio', 'data', 'output', 'url'], ['type']),
    answers: 'bytes',
    unit: 'characters',
  },
  createTranscription: { path: '/audio/transcriptions', ...recordings },
  createTranslation: { path: '/audio/translations', ...recordings },
  createMessage: {
    path: '/messages',
    ...messages,
    // a model may have nothing to say; the first event has the message as it begins
    result: leastResult(['content', 'stop_reason'], ['message']),
    textKey: 'delta',
    names: true,
    createReader: () => new MessageReader(),
    createStreamEnd: (requestId) => new MessageEnd(requestId),
  },
  createRerank: ownEndpoint({ path: '/v1/rerank', units: '/meta/billed_units/search_units' }),
  countMessageTokens: {
    path: '/messages/count_tokens',
    ...messages,
    result: leastResult(['input_tokens']),
    isFree: true,
  },
} as const satisfies Readonly<Record<string, Endpoint>>;

function readSpeech(request: ApiRequest): ModelBody {
  const { rawBody, fields } = request;
  const { stream_format: format } = request.body as { stream_format?: unknown };
  const input = fields.get('input');
  const body = readModelBody(request);
  return {
    ...body,
    stream: format === 'sse',
    output: { ...body.output, characters: input ? charactersIn(rawBody, input) : 0 },
  };
}

function readForm({ form }: ApiRequest): ModelBody {
  if (form) return readMultipartBody(form);
  throw new Error('openapi.yaml: this operation takes something else than a form');
}

/** An edit comes as a form with the images, or as JSON that says where they are. */
function readImageEdit(request: ApiRequest): ModelBody {
  if (request.form) return readForm(request);
  const { images = [], mask } = request.body as { images?: readonly unknown[]; mask?: unknown };
  return { ...readModelBody(request), pictures: images.length + (mask ? 1 : 0) };
}

function readRecording(request: ApiRequest): ModelBody {
  const body = readForm(request);
  const lengthOf = ({ start, end }: ByteRange) => estimateSeconds(request.rawBody.subarray(start, end));
  const seconds = (body.files ?? []).reduce((sum, file) => sum + lengthOf(file), 0);
  return { ...body, output: { choices: 1, maxTokens: undefined, seconds } };
}

/** The members at the top of a body that are read of every endpoint that a host has added, described or not. */
export const readOfAny: readonly string[] = [
  ...['stream', 'n', 'best_of', 'prompt', 'input', 'tools', 'web_search_options'],
  ...limitsOfAny,
];

/** An endpoint by its row, as hosts write it: POST, JSON in, and JSON or events out. */
export function ownEndpoint(row: EndpointRow): Endpoint {
  const { path, model = '/model', speaks = 'openai', units, expectedUnits = 1 } = row;
  const modelField = namesIn(model).join('.');
  const pointer = units === undefined ? [] : namesIn(units);
  return {
    ...plain,
    path: path.slice('/v1'.length),
    dialect: speaks,
    readBody(request) {
      const { output, ...body } = readModelBody(request, anyPath, modelField);
      // which field would limit it, nobody knows
      const limitField = output.maxTokens === undefined ? undefined : output.limitField;
      return { ...body, output: { ...output, limitField, units: expectedUnits } };
    },
    result: anyResult,
    textKey: 'delta',
    isUnmeasured: true,
    answersUnits: units !== undefined,
    createReader: () => new AmountReader(speaks, pointer),
    // it need not end as messages do
    ...(speaks === 'anthropic' && { createStreamEnd: (requestId: string) => new MessageEnd(requestId, true) }),
  };
}
