import { chunks, json, type Script } from '../support/upstream.ts';

/** What the provider reads of a request. */
interface Asked {
  readonly stream?: boolean;
  readonly tools?: readonly unknown[];
  readonly messages?: readonly { readonly role: string }[];
  readonly input?: string | readonly { readonly type?: string }[];
  readonly encoding_format?: string;
}

const model = { created: 1, model: 'm' };
const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
const call = { name: 'weather', arguments: '{"city":"Porto"}' };

function chat({ tools, messages = [] }: Asked): { message: Record<string, unknown>; finish_reason: string } {
  if (!tools || messages.some(({ role }) => role === 'tool')) {
    return { message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' };
  }
  const tool_calls = [{ index: 0, id: 'call_1', type: 'function', function: call }];
  return { message: { role: 'assistant', content: null, tool_calls }, finish_reason: 'tool_calls' };
}

function chatAnswer(asked: Asked): Script {
  const { message, finish_reason } = chat(asked);
  if (!asked.stream) {
    const choices = [{ index: 0, message, finish_reason, logprobs: null }];
    return json(200, { id: 'chatcmpl-1', object: 'chat.completion', ...model, choices, usage });
  }
  const chunk = (fields: object) => `data: ${JSON.stringify({ id: 'chatcmpl-1', ...model, ...fields })}\n\n`;
  const part = (delta: object, end: string | null = null) =>
    chunk({ object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: end }] });
  const parts =
    typeof message.content === 'string' ? [{ role: 'assistant', content: 'Hel' }, { content: 'lo' }] : [message];
  const last = chunk({ object: 'chat.completion.chunk', choices: [], usage });
  return chunks([...parts.map((delta) => part(delta)), part({}, finish_reason), last, 'data: [DONE]\n\n']);
}

const textPart = { type: 'output_text', text: 'Hello', annotations: [], logprobs: [] };
const textItem = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [textPart] };
const callItem = { id: 'fc_1', type: 'function_call', call_id: 'call_1', status: 'completed', ...call };

function response(output: readonly object[], status: string): object {
  return {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    model: 'm',
    status,
    output,
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    temperature: 1,
    top_p: 1,
    usage:
      status === 'completed'
        ? {
            input_tokens: 3,
            input_tokens_details: { cached_tokens: 0 },
            output_tokens: 5,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: 8,
          }
        : null,
  };
}

function responsesAnswer({ stream, tools, input }: Asked): Script {
  const toolHasRun = Array.isArray(input) && input.some(({ type }) => type === 'function_call_output');
  const calls = (tools?.length ?? 0) > 0 && !toolHasRun;
  const item = calls ? callItem : textItem;
  if (!stream) return json(200, response([item], 'completed'));
  const at = { item_id: item.id, output_index: 0, content_index: 0 };
  const deltas = calls
    ? [
        { type: 'response.function_call_arguments.delta', ...at, delta: call.arguments },
        { type: 'response.function_call_arguments.done', ...at, ...call },
      ]
    : [
        { type: 'response.content_part.added', ...at, part: { ...textPart, text: '' } },
        { type: 'response.output_text.delta', ...at, delta: 'Hel', logprobs: [] },
        { type: 'response.output_text.delta', ...at, delta: 'lo', logprobs: [] },
        { type: 'response.output_text.done', ...at, text: 'Hello', logprobs: [] },
        { type: 'response.content_part.done', ...at, part: textPart },
      ];
  const added = { ...item, status: 'in_progress', ...(calls ? { arguments: '' } : { content: [] }) };
  const events: readonly { type: string }[] = [
    { type: 'response.created', response: response([], 'in_progress') } as { type: string },
    { type: 'response.output_item.added', output_index: 0, item: added } as { type: string },
    ...deltas,
    { type: 'response.output_item.done', output_index: 0, item } as { type: string },
    { type: 'response.completed', response: response([item], 'completed') } as { type: string },
  ];
  return chunks(
    events.map(
      (event, sequence_number) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`,
    ),
  );
}

function embeddingAnswer({ encoding_format }: Asked): Script {
  const vector = [0.25, -0.5];
  const base64 = Buffer.from(Float32Array.from(vector).buffer).toString('base64');
  const data = [{ object: 'embedding', index: 0, embedding: encoding_format === 'base64' ? base64 : vector }];
  return json(200, { object: 'list', model: 'm', data, usage: { prompt_tokens: 1, total_tokens: 1 } });
}

/** A provider that says `Hello`, and calls the tool `weather` for `Porto` first where it is given tools. */
export const provider: Script = (res, request) => {
  const asked = JSON.parse(request.body.toString()) as Asked;
  const answer = request.path.endsWith('/embeddings')
    ? embeddingAnswer
    : request.path.endsWith('/responses')
      ? responsesAnswer
      : chatAnswer;
  return answer(asked)(res, request);
};
