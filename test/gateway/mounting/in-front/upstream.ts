import { events, json, reset, type Script } from '../../../support/upstream.ts';

/** What is answered, so that its answers differ in nothing from one time to the next. */
const completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hé, "you"' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
};
const pieces = ['Hé', ', you'].map((content) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta: { content }, finish_reason: null }],
}));
const model = (id: string) => ({ id, object: 'model', created: 1, owned_by: 'us' });
/** The file of requests that a batch is made of. */
const request = { url: '/v1/chat/completions', body: { model: 'm' } };
const failure = { error: { message: 'Out of order', type: 'server_error', param: null, code: null } };

/** Whom a realtime session is for, so that each account has secrets and calls of its own. */
const talkerIn = (text: string): string => /"instructions":"(\w+)"/.exec(text)?.[1] ?? 'any';

function answerOf(path: string, text: string): unknown {
  if (path.endsWith('/embeddings'))
    return { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }] };
  if (path.endsWith('/input_tokens')) return { object: 'response.input_tokens', input_tokens: 1 };
  if (path.includes('/responses')) return { id: 'resp_1', object: 'response', usage: completion.usage };
  // a part of an object, alone and in the list of them
  if (/\/items/.test(path)) return { id: 'msg_1', object: 'list', data: [{ id: 'msg_1', type: 'message' }] };
  if (/\/containers\/\w+\/files/.test(path)) return { id: 'cfile_1', object: 'list', data: [{ id: 'cfile_1' }] };
  if (/\/versions/.test(path)) return { id: 'skillver_1', object: 'list', version: '1', data: [{ version: '1' }] };
  const fileBatchId = /"file_batch":"(\w+)"/.exec(text)?.[1] ?? path.split('/')[5] ?? 'any';
  if (/\/file_batches/.test(path)) return { id: fileBatchId, object: 'list', data: [] };
  if (/\/vector_stores\/\w+\/files/.test(path)) return { id: 'file-1', object: 'list', data: [{ id: 'file-1' }] };
  if (path.includes('/conversations')) return { id: 'conv_1', object: 'conversation' };
  if (path.includes('/containers')) return { id: 'cntr_1', object: 'container', data: [] };
  if (path.includes('/skills')) return { id: 'skill_1', object: 'skill', data: [] };
  if (path.includes('/vector_stores')) return { id: 'vs_1', object: 'vector_store', data: [] };
  if (path.endsWith('/content')) return request;
  // a batch or an upload is never deleted, so each account has one of its own
  const batchId = /"batch":"(\w+)"/.exec(text)?.[1] ?? 'any';
  if (path.includes('/batches')) return { id: batchId, object: 'batch', status: 'completed' };
  const jobId = /"suffix":"(\w+)"/.exec(text)?.[1] ?? path.split('/')[4] ?? 'any';
  if (path.includes('/fine_tuning/'))
    return { id: jobId, object: 'fine_tuning.job', status: 'cancelled', fine_tuned_model: `ft:m:${jobId}`, data: [] };
  const uploadId = /"filename":"(\w+)"/.exec(text)?.[1] ?? 'any';
  if (path.endsWith('/parts')) return { id: `part_of_${path.split('/').at(-2)}`, object: 'upload.part' };
  if (path.endsWith('/complete'))
    return { id: 'any', object: 'upload', file: { id: `file_of_${path.split('/').at(-2)}`, object: 'file' } };
  if (path.includes('/uploads')) return { id: uploadId, object: 'upload' };
  if (path.includes('/realtime')) return { value: `ek_${talkerIn(text)}`, expires_at: 4_000_000_000 };
  if (path.includes('/files')) return { id: 'file-1', object: 'file' };
  if (path.endsWith('/moderations')) return { id: 'modr_1', model: 'm', results: [{ flagged: false }] };
  if (path.includes('/audio/')) return { text: 'Hé' };
  if (path.includes('/images/')) return { created: 1, data: [{ b64_json: 'AAAA' }] };
  if (path.endsWith('/models')) return { object: 'list', data: [model('m'), model('meta/llama-3')] };
  if (path.includes('/models/')) return model(decodeURIComponent(path.slice(path.indexOf('/models/') + 8)));
  return completion;
}

/** An upstream that answers the same request the same way; the models `broken` and `dying` fail before and after the first byte. */
export const steady: Script = (res, request) => {
  const text = request.body.toString('latin1');
  if (text.includes('"broken"')) return json(500, failure)(res, request);
  if (text.includes('"dying"')) return reset(`data: ${JSON.stringify(pieces[0])}\n\n`)(res, request);
  if (text.includes('"stream":true')) return events(pieces)(res, request);
  const location = `/v1/realtime/calls/rtc_${talkerIn(text)}`;
  if (request.path.endsWith('/speech'))
    return json(200, Buffer.from('MP3'), { 'content-type': 'audio/mpeg' })(res, request);
  if (request.path.endsWith('/calls')) return json(201, {}, { location })(res, request);
  return json(200, answerOf(request.path, text), { 'x-of-upstream': 'yes', 'openai-processing-ms': '5' })(res, request);
};
