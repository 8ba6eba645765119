/** Whole streams of messages, in the order and with the fields in which Anthropic's API documents them. */

/** One event of a stream. */
type Event = { readonly type: string } & Readonly<Record<string, unknown>>;

const model = 'claude-sonnet-4-5';

function begun(usage: object): Event {
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model, content: [], stop_reason: null };
  return { type: 'message_start', message: { ...message, stop_sequence: null, usage } };
}

function block(index: number, content: object, deltas: readonly object[]): Event[] {
  return [
    { type: 'content_block_start', index, content_block: content },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ];
}

function ended(reason: string, usage: object): Event[] {
  return [
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
}

const text = (value: string) => ({ type: 'text_delta', text: value });
const noText = { type: 'text', text: '' };
const ping: Event = { type: 'ping' };

/** What a stream has used, as its record says it. */
interface Recorded {
  readonly name: string;
  readonly events: readonly Event[];
  readonly used: { readonly inputTokens: number; readonly outputTokens: number } & Readonly<Record<string, number>>;
}

export const recordedText: Recorded = {
  name: 'a text',
  events: [
    begun({ input_tokens: 25, output_tokens: 1 }),
    ...block(0, noText, [text('Hello'), text(', Porto 😀')]),
    ping,
    ...ended('end_turn', { output_tokens: 15 }),
  ],
  used: { inputTokens: 25, outputTokens: 15 },
};

export const recordings: readonly Recorded[] = [
  recordedText,
  {
    name: 'a call of a tool',
    events: [
      begun({ input_tokens: 472, output_tokens: 2 }),
      ping,
      ...block(0, noText, [text("I'll look"), text(' it up.')]),
      ...block(1, { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }, [
        { type: 'input_json_delta', partial_json: '' },
        { type: 'input_json_delta', partial_json: '{"city": "Por' },
        { type: 'input_json_delta', partial_json: 'to", "usage": {"input_tokens": 9, "output_tokens": 9}}' },
      ]),
      ...ended('tool_use', { output_tokens: 89 }),
    ],
    used: { inputTokens: 472, outputTokens: 89 },
  },
  {
    name: 'thinking',
    events: [
      begun({ input_tokens: 40, output_tokens: 3 }),
      ...block(0, { type: 'thinking', thinking: '', signature: '' }, [
        { type: 'thinking_delta', thinking: 'Let me solve this:\n\n1. ' },
        { type: 'thinking_delta', thinking: '27 * 453 = 12,231' },
        { type: 'signature_delta', signature: 'EqQBCgIYAhIM1gbcDa9GJwZA2b3h' },
      ]),
      ...block(1, noText, [text('27 * 453 = **12,231**')]),
      ...ended('end_turn', { output_tokens: 151, output_tokens_details: { thinking_tokens: 120 } }),
    ],
    used: { inputTokens: 40, outputTokens: 151, reasoningTokens: 120 },
  },
  {
    name: 'a search of the web',
    events: [
      begun({
        ...{ input_tokens: 2_679, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 3 },
        server_tool_use: { web_search_requests: 0 },
      }),
      ...block(0, noText, [text("I'll check.")]),
      ...block(1, { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }, [
        { type: 'input_json_delta', partial_json: '{"query": "weather Porto"}' },
      ]),
      ...block(
        2,
        {
          type: 'web_search_tool_result',
          tool_use_id: 'srvtoolu_1',
          content: [
            { type: 'web_search_result', title: 'Weather', url: 'https://example.com', encrypted_content: 'E' },
          ],
        },
        [],
      ),
      ...block(3, noText, [
        text('It is sunny.'),
        {
          type: 'citations_delta',
          citation: { type: 'web_search_result_location', cited_text: 'sunny', url: 'https://example.com', title: 'W' },
        },
      ]),
      ...ended('end_turn', {
        ...{ input_tokens: 10_682, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 510 },
        server_tool_use: { web_search_requests: 1 },
      }),
    ],
    used: { inputTokens: 10_682, outputTokens: 510, webSearchCalls: 1 },
  },
  {
    name: 'a prompt that is in the cache in part',
    events: [
      begun({ input_tokens: 21, cache_creation_input_tokens: 300, cache_read_input_tokens: 188_086, output_tokens: 1 }),
      ...block(0, noText, [text('Yes.')]),
      ...ended('end_turn', {
        ...{ input_tokens: 21, cache_creation_input_tokens: 300, cache_read_input_tokens: 188_086, output_tokens: 393 },
      }),
    ],
    used: { inputTokens: 188_407, cachedInputTokens: 188_086, cacheWriteTokens: 300, outputTokens: 393 },
  },
  {
    name: 'a prompt of which a part is kept in the cache for an hour',
    events: [
      begun({
        ...{ input_tokens: 21, cache_creation_input_tokens: 456, cache_read_input_tokens: 2_051, output_tokens: 1 },
        cache_creation: { ephemeral_5m_input_tokens: 156, ephemeral_1h_input_tokens: 300 },
      }),
      ...block(0, noText, [text('Yes.')]),
      ...ended('end_turn', {
        ...{ input_tokens: 21, cache_creation_input_tokens: 456, cache_read_input_tokens: 2_051, output_tokens: 39 },
      }),
    ],
    used: {
      ...{ inputTokens: 2_528, cachedInputTokens: 2_051, cacheWriteTokens: 456, cacheWriteHourTokens: 300 },
      outputTokens: 39,
    },
  },
  {
    name: 'a conversation that the provider sums up first',
    events: [
      begun({ input_tokens: 23_000, output_tokens: 1 }),
      ...block(0, { type: 'compaction', content: null }, [
        { type: 'compaction_delta', content: 'We spoke of rivers.' },
      ]),
      ...block(1, noText, [text('Yes.')]),
      ...ended('end_turn', {
        ...{ input_tokens: 23_000, output_tokens: 1_000 },
        iterations: [
          { type: 'compaction', input_tokens: 180_000, output_tokens: 3_500 },
          { type: 'message', input_tokens: 23_000, output_tokens: 1_000 },
        ],
      }),
    ],
    used: { inputTokens: 203_000, outputTokens: 4_500 },
  },
];

/** An event as it is sent. */
export function sent(event: Event): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}
