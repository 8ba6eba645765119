import type { StoredObjects } from '../../../src/stored/service.ts';
import { callerKey } from '../../support/model-server.ts';
import { noStoredObjects } from '../../support/no-stored-objects.ts';

/** A call of one endpoint, and how an upstream answers it. */
export interface EndpointCall {
  readonly name: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below `/v1`. */
  readonly path: string;
  readonly body?: Buffer;
  readonly bodyType?: string;
  readonly answerType: string;
  /** The whole answer, or the events of a stream, the last of which ends it. */
  readonly answer: readonly Buffer[];
  /** What answers may be: JSON alone, any text, bytes that are sent as they come, or a stream. */
  readonly kind: 'json' | 'text' | 'bytes' | 'stream';
  /** Whether a stream says by its last event that it is whole. Otherwise the end of its body says so. */
  readonly endsInEvent?: boolean;
  /** Whether it calls a model, so that it is metered. */
  readonly isMetered: boolean;
  /** Whether the upstream works on when the client leaves, because only the end says what was used. */
  readonly runsOn?: boolean;
}

/** White space, integers of 64 bits and keys that stand there twice, which a parser would change. */
const odd = ' "n":18446744073709551615, "x":1.0,"x":1e2, "é":"\\ud83d\\ude00😀" }\n';
const json = (fields: string) => Buffer.from(`{${fields},${odd}`);
const jsonType = 'application/json';
const streamType = 'text/event-stream; charset=utf-8';
const event = (type: string, fields: string) => Buffer.from(`event: ${type}\ndata: {"type":"${type}",${fields}}\n\n`);
const data = (fields: string) => Buffer.from(`data: {${fields}}\n\n`);

/** A form with a recording that is no text. */
function form(fields: Readonly<Record<string, string>>): Buffer {
  const part = (head: string, value: string | Buffer) => [
    Buffer.from(`--b0undary\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ];
  const recording = Buffer.from(Array.from({ length: 2_000 }, (_, i) => (i * 7) % 251));
  return Buffer.concat([
    ...Object.entries(fields).flatMap(([name, value]) => part(`name="${name}"`, value)),
    ...part('name="file"; filename="é.mp3"\r\nContent-Type: audio/mpeg', recording),
    Buffer.from('--b0undary--\r\n'),
  ]);
}

const formType = 'multipart/form-data; boundary=b0undary';
const usage = '"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}';

type Fields = Partial<EndpointCall> & Pick<EndpointCall, 'name' | 'path'>;

function call({ method = 'POST', ...fields }: Fields): EndpointCall {
  const isStored = method !== 'POST' || fields.body === undefined;
  return {
    method,
    answerType: jsonType,
    // what each endpoint has at least
    answer: [json('"id":"answer_1","object":"x","choices":[1],"results":[1],"text":"","input_tokens":3')],
    kind: 'json',
    isMetered: !isStored,
    ...(fields.body && { bodyType: jsonType }),
    ...fields,
  };
}

const stream = { kind: 'stream', answerType: streamType } as const;
const response = (status: string) => `"sequence_number":1,"response":{"id":"resp_1","status":"${status}",${usage}}`;
const responseEvents = [
  event('response.created', '"sequence_number":0,"response":{"id":"resp_1","status":"in_progress","usage":null}'),
  event('response.output_text.delta', '"sequence_number":1,"delta":"é😀"'),
  event('response.completed', response('completed')),
];
const ask = (fields = '') => json(`"model":"m","input":"Hi"${fields}`);
const chat = (fields = '') => json(`"model":"m","messages":[{"role":"user","content":"Hi"}],"store":true${fields}`);
const message = (fields = '') =>
  json(`"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]${fields}`);
const messageEvents = [
  event('message_start', '"message":{"id":"msg_1","content":[],"usage":{"input_tokens":3,"output_tokens":1}}'),
  event('content_block_delta', '"index":0,"delta":{"type":"text_delta","text":"é😀"}'),
  event('message_delta', '"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}'),
  event('message_stop', '"x":1'),
];
const text = { ...stream, body: form({ model: 'm', stream: 'true' }), bodyType: formType };
const transcript = [
  data('"type":"transcript.text.delta","delta":"é😀"'),
  data(`"type":"transcript.text.done","text":"é😀",${usage}`),
];
const recorded = { body: form({ model: 'm' }), bodyType: formType, kind: 'text' } as const;

/** Calls about what upstreams keep: their answers use no tokens. */
const stored: readonly Fields[] = [
  { name: 'a retrieved response', method: 'GET', path: '/responses/resp_1?include=a&include=b' },
  { name: 'a deleted response', method: 'DELETE', path: '/responses/resp_1' },
  { name: 'a canceled response', path: '/responses/resp_1/cancel' },
  { name: 'the input of a response', method: 'GET', path: '/responses/resp_1/input_items?limit=3' },
  // it has an owner, whether or not its client waits
  {
    name: 'a new conversation',
    path: '/conversations',
    body: json('"metadata":{"a":"b"}'),
    isMetered: false,
    runsOn: true,
  },
  { name: 'a conversation', method: 'GET', path: '/conversations/conv_1' },
  { name: 'a changed conversation', path: '/conversations/conv_1', body: json('"metadata":{}'), isMetered: false },
  { name: 'a deleted conversation', method: 'DELETE', path: '/conversations/conv_1' },
  { name: 'new items', path: '/conversations/conv_1/items', body: json('"items":[]'), isMetered: false },
  { name: 'the items of a conversation', method: 'GET', path: '/conversations/conv_1/items?order=asc' },
  { name: 'an item', method: 'GET', path: '/conversations/conv_1/items/msg_1' },
  { name: 'a deleted item', method: 'DELETE', path: '/conversations/conv_1/items/msg_1' },
  { name: 'a stored chat', method: 'GET', path: '/chat/completions/chat_1' },
  { name: 'a changed chat', path: '/chat/completions/chat_1', body: json('"metadata":{}'), isMetered: false },
  { name: 'a deleted chat', method: 'DELETE', path: '/chat/completions/chat_1' },
  { name: 'the messages of a chat', method: 'GET', path: '/chat/completions/chat_1/messages?limit=2' },
];

/** What an upstream has to speak that is asked for all of them. */
export const allDialects = ['openai', 'anthropic'] as const;

/** The endpoints beside chats without `store`, embeddings and images, whose tables are written out. */
export const endpointCalls: readonly EndpointCall[] = [
  { name: 'a response', path: '/responses', body: ask(), runsOn: true },
  {
    name: 'a streamed response',
    path: '/responses',
    body: ask(',"stream":true'),
    ...stream,
    answer: responseEvents,
    endsInEvent: true,
    runsOn: true,
  },
  { name: 'counted input', path: '/responses/input_tokens', body: ask(), runsOn: true },
  { name: 'a compacted response', path: '/responses/compact', body: ask(), runsOn: true },
  {
    name: 'a response that is streamed again',
    method: 'GET',
    path: '/responses/resp_1?stream=true&starting_after=0',
    ...stream,
    answer: responseEvents.slice(1),
    endsInEvent: true,
  } as const,
  ...stored,
  { name: 'a chat to be stored', path: '/chat/completions', body: chat() },
  {
    name: 'a streamed chat to be stored',
    path: '/chat/completions',
    body: chat(',"stream":true'),
    ...stream,
    answer: [data('"id":"chat_1","choices":[{"delta":{"content":"é😀"}}]'), Buffer.from('data: [DONE]\n\n')],
    endsInEvent: true,
  } as const,
  {
    name: 'speech',
    path: '/audio/speech',
    body: json('"model":"m","input":"Hi","voice":"v"'),
    kind: 'bytes',
    answerType: 'audio/mpeg',
    answer: [Buffer.from(Array.from({ length: 5_000 }, (_, i) => (i * 31) % 256))],
  } as const,
  {
    name: 'streamed speech',
    path: '/audio/speech',
    body: json('"model":"m","input":"Hi","voice":"v","stream_format":"sse"'),
    ...stream,
    answer: [data('"type":"speech.audio.delta","audio":"QUJD"'), data(`"type":"speech.audio.done",${usage}`)],
    endsInEvent: true,
  } as const,
  { name: 'a transcription', path: '/audio/transcriptions', ...recorded },
  {
    name: 'a transcription as text',
    path: '/audio/transcriptions',
    ...recorded,
    body: form({ model: 'm', response_format: 'srt' }),
    answerType: 'text/plain; charset=utf-8',
    answer: [Buffer.from('1\n00:00:00,000 --> 00:00:02,500\né😀\n\n')],
  },
  { name: 'a streamed transcription', path: '/audio/transcriptions', ...text, answer: transcript, endsInEvent: true },
  { name: 'a translation', path: '/audio/translations', ...recorded },
  { name: 'a moderation', path: '/moderations', body: ask() },
  { name: 'a rerank', path: '/rerank', body: json('"model":"m","query":"Hi","documents":["é😀"]') },
  {
    name: 'a message',
    path: '/messages?beta=true',
    body: message(),
    answer: [
      json('"id":"msg_1","content":[{"type":"text","text":"é😀"}],"usage":{"input_tokens":3,"output_tokens":2}'),
    ],
  },
  {
    name: 'a streamed message',
    path: '/messages',
    body: message(',"stream":true'),
    ...stream,
    answer: messageEvents,
    endsInEvent: true,
  } as const,
  { name: 'counted tokens of a message', path: '/messages/count_tokens', body: message() },
].map((fields) => call(fields as Fields));

/** Everything is stored, and belongs to everybody. */
export function ownedByAll(upstream: string): StoredObjects {
  return { ...noStoredObjects, find: async (object) => ({ ...object, upstream, model: null }) };
}

/** Makes the call. @param baseUrl with `/v1` */
export function send(baseUrl: string, { method, path, body, bodyType }: EndpointCall, signal?: AbortSignal) {
  return fetch(baseUrl + path, {
    method,
    headers: { authorization: `Bearer ${callerKey}`, ...(bodyType !== undefined && { 'content-type': bodyType }) },
    ...(body && { body: new Uint8Array(body) }),
    ...(signal && { signal }),
  });
}
