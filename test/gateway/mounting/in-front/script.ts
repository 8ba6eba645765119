import { gzipSync } from 'node:zlib';
import type { Conversation } from './conversation.ts';

const messages = [{ role: 'user', content: 'Hé' }];
const day = '?from=2026-01-01&to=2026-01-02';

/** A form with these fields and a picture. */
function form(fields: Readonly<Record<string, string>>): { headers: Record<string, string>; body: string } {
  const texts = Object.entries(fields).map(
    ([name, value]) =>
      `--b\r\ncontent-disposition: form-data; name="${name}"${/^files?$/.test(name) ? '; filename="a.mp3"' : ''}\r\n\r\n${value}\r\n`,
  );
  const picture =
    '--b\r\ncontent-disposition: form-data; name="image"; filename="a.png"\r\ncontent-type: image/png\r\n\r\nPNG\r\n--b--\r\n';
  return { headers: { 'content-type': 'multipart/form-data; boundary=b' }, body: texts.join('') + picture };
}

/** What an account has before it has done anything, and its money. */
async function accounting(on: Conversation): Promise<void> {
  const { userId } = on.talker;
  const money = { user_id: userId, amount: 25, currency: 'usd' };
  await on.operation(200, 'retrieveCredits');
  await on.operation(201, 'topUpCredits', [], {
    headers: { 'idempotency-key': 'welcome' },
    body: { user_id: userId, credits: 500 },
  });
  await on.operation(201, 'reportPayment', [], {
    headers: { 'idempotency-key': 'late' },
    body: { ...money, status: 'failed', payment_id: `pay_${userId}`, reason: 'card_declined' },
  });
  await on.operation(200, 'retrieveUsage', [], { query: day });
  await on.operation(201, 'createUserApiKey', [userId], { body: { name: 'theirs', scopes: ['models'] } });
  const made = await on.operation(201, 'createApiKey', [], { body: { name: 'ours', scopes: ['models'] } });
  await on.operation(200, 'listApiKeys');
  const { data } = await on.operation(200, 'listUserApiKeys', [userId], { query: '?limit=2' });
  const budgets = [{ period: 'day', requests: 1_000 }];
  await on.operation(200, 'updateApiKey', [made.id], { body: { budgets } });
  await on.operation(200, 'deleteApiKey', [made.id]);
  const other = data.find(({ name }: { name: string }) => name === 'theirs');
  await on.operation(200, 'updateUserApiKey', [userId, other.id], { body: { budgets } });
  await on.operation(200, 'deleteUserApiKey', [userId, other.id]);
  await on.operation(200, 'updateUserBudgets', [userId], { body: { budgets } });
  await on.operation(200, 'listUserBudgets', [userId]);
  await on.operation(200, 'listBudgets');
  await on.operation(200, 'listStoredObjects', [], { query: '?kind=file&limit=5' });
  await on.operation(200, 'listUserStoredObjects', [userId], { query: '?kind=batch' });
  await on.operation(200, 'listAccounts', [], { query: `?prefix=${userId}` });
  await on.operation(200, 'retrieveAccount', [userId]);
  await on.operation(200, 'listFailingWebhooks', [], { query: '?state=disabled' });
  await on.operation(200, 'listRefusals', [], { query: `?user_id=${userId}_other` });
  await on.operation(200, 'searchIds', [], { query: `?id=${userId}` });
  await on.operation(200, 'listProcesses');
  await on.operation(200, 'listUpstreams');
  await on.operation(200, 'retrieveBacklog');
}

/** A webhook from its making to its end, and what it was sent. */
async function webhooks(on: Conversation, receiver: string): Promise<void> {
  const { userId } = on.talker;
  const subscribed = { url: receiver, events: ['credits.low'], secret: 'a-long-enough-secret' };
  const { id } = await on.operation(201, 'createWebhook', [], { body: subscribed });
  await on.operation(200, 'listWebhooks', [], { query: '?limit=5' });
  await on.operation(200, 'retrieveWebhook', [id]);
  await on.operation(200, 'retrieveWebhookStats', [id]);
  await on.operation(200, 'updateWebhook', [id], { body: { events: ['credits.low', 'payment.failed'] } });
  await on.operation(200, 'rotateWebhookSecret', [id], { body: { overlap_seconds: 60 } });

  const delivery = await on.operation(200, 'testWebhook', [id], { body: { type: 'credits.low' } });
  await on.operation(200, 'resendDelivery', [delivery.id]);
  await on.operation(200, 'retrieveDelivery', [delivery.id]);
  await on.operation(200, 'listDeliveries', [], { query: `?webhook_id=${id}` });
  const event = { type: 'usage.threshold', user_id: userId };
  const data = { user_id: userId, threshold: 80, current_usage: 81, period: 'daily' };
  const published = await on.operation(201, 'publishEvent', [], {
    headers: { 'idempotency-key': 'one' },
    body: { ...event, data },
  });
  await on.operation(200, 'retrieveEvent', [published.id]);
  await on.operation(200, 'listEvents', [], { query: '?type=usage.threshold' });
  await on.operation(200, 'listEventTypes');

  const since = new Date(Date.now() - 3_600_000).toISOString();
  const recovery = await on.operation(202, 'recoverWebhook', [id], { body: { since } });
  await on.ended(id, recovery.id);
  await on.operation(200, 'retrieveRecovery', [id, recovery.id]);
  await on.operation(200, 'listRecoveries', [id]);
  await on.operation(200, 'deleteWebhook', [id]);
  await on.operation(404, 'retrieveWebhook', [id]);
}

async function models(on: Conversation): Promise<void> {
  const chat = { model: 'm', messages };
  await on.operation(200, 'createChatCompletion', [], { body: chat });
  await on.operation(200, 'createChatCompletion', [], { body: { ...chat, stream: true } });
  const gzipped = gzipSync(JSON.stringify(chat));
  await on.operation(200, 'createChatCompletion', [], { headers: { 'content-encoding': 'gzip' }, body: gzipped });
  await on.operation(500, 'createChatCompletion', [], { body: { ...chat, model: 'broken' } });
  await on.operation(200, 'createChatCompletion', [], { body: { ...chat, model: 'dying', stream: true } });
  await on.operation(200, 'createCompletion', [], { body: { model: 'm', prompt: 'Hé' } });
  await on.operation(200, 'createEmbedding', [], { body: { model: 'm', input: 'Hé' } });
  await on.operation(200, 'createImage', [], { body: { model: 'm', prompt: 'Hé' } });
  await on.operation(200, 'createImageEdit', [], form({ model: 'm', prompt: 'Hé' }));
  await on.operation(200, 'createImageVariation', [], form({ model: 'm' }));
  await on.operation(200, 'createModeration', [], { body: { input: 'Hé' } });
  await on.operation(200, 'createSpeech', [], { body: { model: 'm', input: 'Hé' } });
  await on.operation(200, 'createTranscription', [], form({ model: 'm', file: 'MP3' }));
  await on.operation(200, 'createTranslation', [], form({ model: 'm', file: 'MP3' }));
  await on.operation(200, 'listModels');
  await on.operation(200, 'retrieveModel', ['meta/llama-3']);
}

/** What an upstream keeps for an account, from its making to its end. */
async function stored(on: Conversation): Promise<void> {
  const metadata = { a: 'b' };
  const question = { model: 'm', input: 'Hé' };
  await on.operation(200, 'countResponseInputTokens', [], { body: question });
  await on.operation(200, 'compactResponse', [], { body: question });
  await on.operation(200, 'createResponse', [], { body: question });
  await on.operation(200, 'createResponse', [], { body: { ...question, previous_response_id: 'resp_1' } });
  await on.operation(404, 'createResponse', [], { body: { ...question, previous_response_id: 'resp_2' } });
  await on.operation(200, 'retrieveResponse', ['resp_1'], { query: '?include[]=a&include[]=b' });
  await on.operation(200, 'listResponseInputItems', ['resp_1']);
  await on.operation(200, 'cancelResponse', ['resp_1']);
  await on.operation(200, 'deleteResponse', ['resp_1']);
  await on.operation(404, 'retrieveResponse', ['resp_1']);

  await on.operation(200, 'createConversation', [], { body: { metadata } });
  await on.operation(200, 'retrieveConversation', ['conv_1']);
  await on.operation(200, 'updateConversation', ['conv_1'], { body: { metadata } });
  await on.operation(200, 'createConversationItems', ['conv_1'], { body: { items: [] } });
  await on.operation(200, 'listConversationItems', ['conv_1']);
  await on.operation(200, 'retrieveConversationItem', ['conv_1', 'msg_1']);
  await on.operation(200, 'deleteConversationItem', ['conv_1', 'msg_1']);
  await on.operation(200, 'deleteConversation', ['conv_1']);

  await on.operation(200, 'createFile', [], form({ purpose: 'user_data', file: 'Tagus' }));
  await on.operation(200, 'listFiles', [], { query: '?purpose=user_data' });
  await on.operation(200, 'retrieveFile', ['file-1']);
  await on.operation(200, 'downloadFile', ['file-1']);
  await on.operation(404, 'retrieveFile', ['file-2']);
  const batch = `batch_${on.talker.userId}`;
  const requests = { input_file_id: 'file-1', endpoint: '/v1/chat/completions', completion_window: '24h' };
  await on.operation(200, 'createBatch', [], { body: { ...requests, metadata: { batch } } });
  await on.operation(404, 'createBatch', [], { body: { ...requests, input_file_id: 'file-9' } });
  await on.operation(200, 'listBatches');
  await on.operation(200, 'retrieveBatch', [batch]);
  await on.operation(200, 'cancelBatch', [batch]);
  const job = `ftjob_${on.talker.userId}`;
  const training = { model: 'm', training_file: 'file-1', suffix: job };
  await on.operation(200, 'createFineTuningJob', [], { body: training });
  await on.operation(404, 'createFineTuningJob', [], { body: { ...training, training_file: 'file-9' } });
  await on.operation(200, 'listFineTuningJobs');
  await on.operation(200, 'retrieveFineTuningJob', [job]);
  await on.operation(200, 'listFineTuningEvents', [job]);
  await on.operation(200, 'listFineTuningJobCheckpoints', [job]);
  await on.operation(200, 'pauseFineTuningJob', [job]);
  await on.operation(200, 'resumeFineTuningJob', [job]);
  await on.operation(200, 'cancelFineTuningJob', [job]);
  await on.operation(200, 'deleteModel', [`ft:m:${job}`]);
  await on.operation(404, 'deleteModel', ['m']);
  const upload = `upload_${on.talker.userId}`;
  await on.operation(200, 'createUpload', [], {
    body: { bytes: 5, filename: upload, mime_type: 'text/plain', purpose: 'user_data' },
  });
  await on.operation(200, 'addUploadPart', [upload], form({ data: 'Tagus' }));
  await on.operation(200, 'completeUpload', [upload], { body: { part_ids: [`part_of_${upload}`] } });
  await on.operation(200, 'cancelUpload', [upload]);
  await on.operation(200, 'createContainer', [], { body: { name: 'Hé', file_ids: ['file-1'] } });
  await on.operation(200, 'listContainers', [], { query: '?limit=5' });
  await on.operation(200, 'retrieveContainer', ['cntr_1']);
  await on.operation(404, 'retrieveContainer', ['cntr_9']);
  await on.operation(200, 'createContainerFile', ['cntr_1'], { body: { file_id: 'file-1' } });
  await on.operation(404, 'createContainerFile', ['cntr_1'], form({ file: 'Hé', file_id: 'file-9' }));
  await on.operation(200, 'listContainerFiles', ['cntr_1']);
  await on.operation(200, 'retrieveContainerFile', ['cntr_1', 'cfile_1']);
  await on.operation(200, 'downloadContainerFile', ['cntr_1', 'cfile_1']);
  await on.operation(200, 'deleteContainerFile', ['cntr_1', 'cfile_1']);
  await on.operation(200, 'deleteContainer', ['cntr_1']);
  await on.operation(200, 'createSkill', [], form({ files: 'Hé' }));
  await on.operation(200, 'listSkills');
  await on.operation(200, 'retrieveSkill', ['skill_1']);
  await on.operation(404, 'retrieveSkill', ['skill_9']);
  await on.operation(200, 'updateSkill', ['skill_1'], { body: { default_version: '1' } });
  await on.operation(200, 'downloadSkill', ['skill_1']);
  await on.operation(200, 'createSkillVersion', ['skill_1'], form({ files: 'Hé' }));
  await on.operation(200, 'listSkillVersions', ['skill_1']);
  await on.operation(200, 'retrieveSkillVersion', ['skill_1', '1']);
  await on.operation(200, 'downloadSkillVersion', ['skill_1', '1']);
  await on.operation(200, 'deleteSkillVersion', ['skill_1', '1']);
  await on.operation(200, 'deleteSkill', ['skill_1']);
  await on.operation(200, 'createVectorStore', [], { body: { file_ids: ['file-1'] } });
  await on.operation(200, 'listVectorStores');
  await on.operation(200, 'retrieveVectorStore', ['vs_1']);
  await on.operation(200, 'updateVectorStore', ['vs_1'], { body: { metadata } });
  await on.operation(200, 'searchVectorStore', ['vs_1'], { body: { query: 'Hé' } });
  await on.operation(200, 'createVectorStoreFile', ['vs_1'], { body: { file_id: 'file-1' } });
  await on.operation(404, 'createVectorStoreFile', ['vs_1'], { body: { file_id: 'file-9' } });
  await on.operation(200, 'listVectorStoreFiles', ['vs_1']);
  await on.operation(200, 'retrieveVectorStoreFile', ['vs_1', 'file-1']);
  await on.operation(200, 'updateVectorStoreFile', ['vs_1', 'file-1'], { body: { attributes: metadata } });
  await on.operation(200, 'retrieveVectorStoreFileContent', ['vs_1', 'file-1']);
  await on.operation(200, 'deleteVectorStoreFile', ['vs_1', 'file-1']);
  const fileBatch = `vsfb_${on.talker.userId}`;
  const inBatch = { file_ids: ['file-1'], attributes: { file_batch: fileBatch } };
  await on.operation(200, 'createVectorStoreFileBatch', ['vs_1'], { body: inBatch });
  await on.operation(200, 'retrieveVectorStoreFileBatch', ['vs_1', fileBatch]);
  await on.operation(200, 'listFilesInVectorStoreBatch', ['vs_1', fileBatch]);
  await on.operation(200, 'cancelVectorStoreFileBatch', ['vs_1', fileBatch]);
  await on.operation(200, 'deleteVectorStore', ['vs_1']);
  await on.operation(200, 'deleteFile', ['file-1']);

  const session = { model: 'm', instructions: on.talker.userId };
  const call = `rtc_${on.talker.userId}`;
  await on.operation(200, 'createRealtimeClientSecret', [], { body: { session } });
  await on.operation(200, 'createRealtimeSession', [], { body: session });
  const transcription = { model: 'm' };
  const transcribed = { instructions: on.talker.userId, input_audio_transcription: transcription };
  await on.operation(200, 'createRealtimeTranscriptionSession', [], { body: transcribed });
  await on.operation(201, 'createRealtimeCall', [], { body: { sdp: 'v=0', session } });
  await on.operation(200, 'createRealtimeTranslationClientSecret', [], { body: { session } });
  await on.operation(201, 'createRealtimeTranslationCall', [], { body: { sdp: 'v=0', session } });
  await on.operation(200, 'acceptRealtimeCall', [call], { body: session });
  await on.operation(404, 'acceptRealtimeCall', ['rtc_9'], { body: session });
  await on.operation(200, 'referRealtimeCall', [call], { body: { target_uri: 'tel:+14155550123' } });
  await on.operation(200, 'rejectRealtimeCall', [call], { body: {} });
  await on.operation(200, 'hangupRealtimeCall', [call]);

  await on.operation(200, 'createChatCompletion', [], { body: { model: 'm', messages, store: true, metadata } });
  await on.operation(200, 'listChatCompletions', [], { query: '?limit=5' });
  await on.operation(200, 'retrieveChatCompletion', ['chatcmpl-1']);
  await on.operation(200, 'updateChatCompletion', ['chatcmpl-1'], { body: { metadata } });
  await on.operation(200, 'listChatCompletionMessages', ['chatcmpl-1']);
  await on.operation(200, 'deleteChatCompletion', ['chatcmpl-1']);
}

async function refusals(on: Conversation): Promise<void> {
  const authorization = `Bearer ${on.talker.key}`;
  const chat = JSON.stringify({ model: 'm', messages });
  const post = (name: string, status: number, body: unknown, headers = {}) =>
    on.ask(name, status, 'POST', '/v1/chat/completions', { headers: { authorization, ...headers }, body });
  await on.ask('no key', 401, 'GET', '/v1/webhooks');
  await on.ask('a key that nobody has', 401, 'GET', '/v1/models', { headers: { authorization: 'Bearer emg_wrong' } });
  await on.ask('another method', 405, 'PUT', '/v1/webhooks', { headers: { authorization } });
  await on.ask('HEAD of a list', 200, 'HEAD', '/v1/webhooks', { headers: { authorization } });
  await on.ask('HEAD of models', 200, 'HEAD', '/v1/models', { headers: { authorization } });
  await on.ask('an encoded nothing', 400, 'GET', '/v1/webhooks/%zz', { headers: { authorization } });
  await on.ask('a slash at the end', 200, 'GET', '/v1/webhooks/', { headers: { authorization } });
  await on.ask('an unknown parameter', 400, 'GET', '/v1/webhooks?x=1', { headers: { authorization } });
  await on.ask('a path in other letters', 404, 'GET', '/V1/webhooks', { headers: { authorization } });
  await post('broken JSON', 400, '{"model":');
  await post('no messages', 400, '{"model":"m"}');
  await post('no body', 400, undefined);
  await post('another media type', 415, chat, { 'content-type': 'text/plain' });
  await post('an unknown compression', 415, chat, { 'content-encoding': 'rot13' });
  await post('a wrong id', 200, chat, { 'x-request-id': 'not an id!' });
  const wait = { expect: '100-continue' };
  await post('a body that is asked for', 200, chat, wait);
  await post('a body too large to be asked for', 413, chat, { ...wait, 'content-length': 40_000_000 });
  await post('a body of nobody', 401, chat, { ...wait, authorization: 'Bearer emg_wrong' });
  const tooMuch = Buffer.alloc(300_000, 0x20);
  await on.ask('a body too large', 413, 'POST', '/v1/webhooks', { headers: { authorization }, body: tooMuch });

  const { port, prefix } = on.talker;
  const key = ['authorization', authorization, 'x-request-id', 'asked-by-a-test'];
  const own = ['host', `127.0.0.1:${port}`];
  if (!prefix) {
    const target = `http://127.0.0.1:${port}/v1/models`;
    await on.wire('an absolute target', 200, { method: 'GET', target, headers: [...own, ...key] });
  }
  const twice = [...own, 'host', 'evil.example', ...key];
  await on.wire('two hosts', 400, { method: 'GET', target: `${prefix}/v1/models`, headers: twice });
}

async function dashboard(on: Conversation): Promise<void> {
  const authorization = `Bearer ${on.talker.key}`;
  const session = { cookie: `host=${on.talker.userId}` };
  const page = { ...session, 'sec-fetch-site': 'same-origin' };
  await on.ask('the page without its slash', 308, 'GET', '/dashboard?x=1');
  const html: string = await on.ask('the page', 200, 'GET', '/dashboard/');
  const [, script = ''] = /src="(assets\/[^"]+)"/.exec(html) ?? [];
  await on.ask('its script', 200, 'GET', `/dashboard/${script}`);
  await on.ask('HEAD of the page, gzipped', 200, 'HEAD', '/dashboard/', { headers: { 'accept-encoding': 'gzip' } });
  await on.ask('POST to the page', 405, 'POST', '/dashboard/');
  await on.ask('who is signed in by a key', 200, 'GET', '/dashboard/session', { headers: { authorization } });
  await on.ask('who is signed in by a session', 200, 'GET', '/dashboard/session', { headers: page });
  await on.ask('nobody is signed in', 401, 'GET', '/dashboard/session');
  await on.ask("the page's webhooks", 200, 'GET', '/dashboard/v1/webhooks', { headers: page });
  const elsewhere = { ...session, 'sec-fetch-site': 'cross-site' };
  await on.ask("another site's webhooks", 403, 'GET', '/dashboard/v1/webhooks', { headers: elsewhere });
  await on.ask('a session without the page', 401, 'GET', '/v1/webhooks', { headers: page });
}

async function host(on: Conversation): Promise<void> {
  await on.ask('a route of the host', 404, 'GET', '/health?a=b');
  await on.ask('a body for the host', 404, 'POST', '/v1/other', { body: { a: 1 } });
  await on.ask('a body that the host asks for', 404, 'POST', '/v1/other', {
    headers: { expect: '100-continue' },
    body: { a: 1 },
  });
  await on.ask('an unknown path below the dashboard', 404, 'GET', '/dashboard/nothing');
  await on.ask("an unknown path below the dashboard's API", 404, 'GET', '/dashboard/v1/nothing');
  await on.ask('OPTIONS', 204, 'OPTIONS', '/v1/webhooks', { headers: { origin: 'https://app.example' } });
  await on.ask('OPTIONS of the page', 204, 'OPTIONS', '/dashboard/');
  await on.ask('a route of the host that fails', 500, 'GET', '/boom');
}

/** Asks for everything there is: each operation, the dashboard, what is refused, what is the host's. */
export async function converse(on: Conversation, receiver: string): Promise<void> {
  await accounting(on);
  await webhooks(on, receiver);
  await models(on);
  await stored(on);
  await refusals(on);
  await dashboard(on);
  await host(on);
}
