import { refuse } from '../errors.ts';
import { type LeastResult, leastResult } from '../proxy/answer-body.ts';
import type { CallRow, KindRow, MadeRow } from './kind-rows.ts';

/** The ids of what upstreams keep, as openapi.yaml describes them: no provider has others, and they are safe in a path. */
export const storedId = /^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,255}$/;

/** Whether a value from outside is such an id. */
export function isStoredId(value: unknown): value is string {
  return typeof value === 'string' && storedId.test(value);
}

/** The names of models that upstreams make, of which customers may choose a part: printable, and not such that they lead elsewhere in a path. */
const modelName = /^(?!\.+$)\P{C}{1,256}$/u;

/** Whether a value from outside is the name of a model that an upstream has made. */
export function isModelName(value: unknown): value is string {
  return typeof value === 'string' && modelName.test(value);
}

/** No provider's ids are longer. Characters. */
export const longestId = 256;

/** Providers end a batch after a day, whether it is done or not. Milliseconds. */
const longestBatch = 2 * 86_400_000;
/** What a batch has made, and which of its requests have failed. */
const madeByBatch: MadeRow = { files: ['output_file_id', 'error_file_id'], purpose: 'batch_output' };
/** A job may wait, be paused and go on. Milliseconds. */
const longestJob = 30 * 86_400_000;
/** Each checkpoint is a model. */
export const madeByCheckpoints: MadeRow = { models: ['fine_tuned_model_checkpoint'], list: 'data' };
const madeByJob: MadeRow = {
  files: ['result_files'],
  purpose: 'fine-tune-results',
  models: ['fine_tuned_model'],
};

const givenId = 'use an id that this account was given';

const ofResponse = '/responses/{response_id}';
const ofConversation = '/conversations/{conversation_id}';
const ofItem = `${ofConversation}/items/{item_id}`;
const ofChat = '/chat/completions/{completion_id}';
const ofFile = '/files/{file_id}';
const ofUpload = '/uploads/{upload_id}';
const ofBatch = '/batches/{batch_id}';
const ofMessageBatch = '/messages/batches/{message_batch_id}';
const ofJob = '/fine_tuning/jobs/{fine_tuning_job_id}';
const ofContainer = '/containers/{container_id}';
const ofContainerFile = `${ofContainer}/files/{file_id}`;
const ofSkill = '/skills/{skill_id}';
const ofSkillVersion = `${ofSkill}/versions/{version}`;
const ofRealtimeCall = '/realtime/calls/{call_id}';
const ofVectorStore = '/vector_stores/{vector_store_id}';
const ofVectorStoreFile = `${ofVectorStore}/files/{file_id}`;
const ofFileBatch = `${ofVectorStore}/file_batches/{batch_id}`;

const shownItems = { param: 'item_id', list: 'data' } as const;
const listedFiles = { param: 'file_id', list: 'data' } as const;
const listedVersions = { param: 'version', list: 'data' } as const;

/** What upstreams keep for accounts. Everything that is special about one kind is in its row. */
const rows = {
  response: {
    name: 'response',
    remedy: givenId,
    index: 'userResponses',
    // the other one of a message of Anthropic's API, of which nothing is stored
    namedBy: ['previous_response_id', 'previous_message_id'],
    continuedBy: { param: 'previous_response_id', fields: ['previous_response_id'] },
    eventMember: 'response',
    bringsItems: 'output',
    runsWhile: ['queued', 'in_progress'],
    calls: {
      retrieveResponse: { method: 'GET', path: ofResponse, showsEnd: true },
      deleteResponse: { method: 'DELETE', path: ofResponse, effect: 'removes' },
      cancelResponse: { method: 'POST', path: `${ofResponse}/cancel`, onlyEnds: true, showsEnd: true },
      listResponseInputItems: { method: 'GET', path: `${ofResponse}/input_items`, showsParts: shownItems },
    },
  },
  conversation: {
    name: 'conversation',
    remedy: givenId,
    index: 'userConversations',
    continuedBy: { param: 'conversation', fields: ['conversation.id', 'conversation'] },
    isKept: true,
    calls: {
      createConversation: { method: 'POST', path: '/conversations', takesItems: true },
      retrieveConversation: { method: 'GET', path: ofConversation },
      updateConversation: { method: 'POST', path: ofConversation },
      deleteConversation: { method: 'DELETE', path: ofConversation, effect: 'removes' },
      createConversationItems: {
        method: 'POST',
        path: `${ofConversation}/items`,
        takesItems: true,
        showsParts: shownItems,
      },
      listConversationItems: { method: 'GET', path: `${ofConversation}/items`, showsParts: shownItems },
      retrieveConversationItem: { method: 'GET', path: ofItem },
      deleteConversationItem: { method: 'DELETE', path: ofItem },
    },
  },
  chat_completion: {
    name: 'chat completion',
    remedy: 'GET /v1/chat/completions lists those that are',
    index: 'userChats',
    hasMetadata: true,
    calls: {
      listChatCompletions: { method: 'GET', path: ofChat, lists: {} },
      retrieveChatCompletion: { method: 'GET', path: ofChat },
      updateChatCompletion: { method: 'POST', path: ofChat, effect: 'changesMetadata' },
      deleteChatCompletion: { method: 'DELETE', path: ofChat, effect: 'removes' },
      listChatCompletionMessages: { method: 'GET', path: `${ofChat}/messages` },
    },
  },
  file: {
    name: 'file',
    remedy: 'GET /v1/files lists those that are',
    index: 'userFiles',
    filter: 'purpose',
    pricedAs: 'file',
    describedBy: { name: ['filename'], bytes: ['bytes', 'size_bytes'] },
    namedBy: ['file_id', 'file_ids', 'input_file_id'],
    isKept: true,
    isMadeOnce: true,
    calls: {
      createFile: { method: 'POST', path: '/files', makesFile: true, streamsUp: true },
      listFiles: { method: 'GET', path: ofFile, lists: { order: 'desc', mostAsked: 10_000 } },
      retrieveFile: { method: 'GET', path: ofFile },
      deleteFile: { method: 'DELETE', path: ofFile, effect: 'removes' },
      downloadFile: { method: 'GET', path: `${ofFile}/content`, answers: 'file' },
    },
  },
  upload: {
    name: 'upload',
    remedy: givenId,
    index: 'userUploads',
    pricedAs: 'file',
    describedBy: { name: ['filename'], bytes: ['bytes', 'size_bytes'] },
    isMadeOnce: true,
    calls: {
      createUpload: { method: 'POST', path: '/uploads', makesFile: true },
      addUploadPart: { method: 'POST', path: `${ofUpload}/parts`, streamsUp: true, brings: { kind: 'part' } },
      completeUpload: {
        method: 'POST',
        path: `${ofUpload}/complete`,
        makesFile: true,
        brings: { kind: 'file', member: 'file' },
      },
      cancelUpload: { method: 'POST', path: `${ofUpload}/cancel` },
    },
  },
  part: { name: 'part of an upload', remedy: givenId, namedBy: ['part_ids'], isMadeOnce: true, calls: {} },
  batch: {
    name: 'batch',
    remedy: 'GET /v1/batches lists those that are',
    index: 'userBatches',
    isKept: true,
    work: { ends: ['completed', 'failed', 'expired', 'cancelled'], followedFor: longestBatch, makes: madeByBatch },
    isMadeOnce: true,
    calls: {
      createBatch: { method: 'POST', path: '/batches', runsFile: 'input_file_id' },
      listBatches: { method: 'GET', path: ofBatch, lists: { order: 'desc' } },
      retrieveBatch: { method: 'GET', path: ofBatch, showsEnd: true },
      cancelBatch: { method: 'POST', path: `${ofBatch}/cancel`, onlyEnds: true, showsEnd: true },
    },
  },
  /** Of Anthropic's API. */
  message_batch: {
    name: 'message batch',
    remedy: 'GET /v1/messages/batches lists those that are',
    notFound: 'batch_not_found',
    index: 'userMessageBatches',
    isKept: true,
    work: { ends: ['ended'], statusIn: 'processing_status', followedFor: longestBatch, makes: {} },
    isMadeOnce: true,
    calls: {
      createMessageBatch: { method: 'POST', path: '/messages/batches', runsBody: true, showsAddress: true },
      listMessageBatches: {
        method: 'GET',
        path: ofMessageBatch,
        lists: { order: 'desc', mostAsked: 1_000 },
        showsAddress: true,
      },
      retrieveMessageBatch: { method: 'GET', path: ofMessageBatch, showsEnd: true, showsAddress: true },
      cancelMessageBatch: {
        method: 'POST',
        path: `${ofMessageBatch}/cancel`,
        onlyEnds: true,
        showsEnd: true,
        showsAddress: true,
      },
      deleteMessageBatch: { method: 'DELETE', path: ofMessageBatch, effect: 'removes' },
      downloadMessageBatchResults: { method: 'GET', path: `${ofMessageBatch}/results`, answers: 'file' },
    },
  },
  fine_tuning_job: {
    name: 'fine-tuning job',
    remedy: 'GET /v1/fine_tuning/jobs lists those that are',
    index: 'userFineTuningJobs',
    isKept: true,
    hasMetadata: true,
    work: { ends: ['succeeded', 'failed', 'cancelled'], followedFor: longestJob, makes: madeByJob },
    isMadeOnce: true,
    calls: {
      createFineTuningJob: {
        method: 'POST',
        path: '/fine_tuning/jobs',
        runsFile: 'training_file',
        namesFiles: ['training_file', 'validation_file'],
      },
      listFineTuningJobs: { method: 'GET', path: ofJob, lists: { order: 'desc' } },
      retrieveFineTuningJob: { method: 'GET', path: ofJob, showsEnd: true },
      cancelFineTuningJob: { method: 'POST', path: `${ofJob}/cancel`, onlyEnds: true, showsEnd: true },
      pauseFineTuningJob: { method: 'POST', path: `${ofJob}/pause`, onlyEnds: true, showsEnd: true },
      resumeFineTuningJob: { method: 'POST', path: `${ofJob}/resume`, showsEnd: true },
      listFineTuningEvents: { method: 'GET', path: `${ofJob}/events` },
      listFineTuningJobCheckpoints: { method: 'GET', path: `${ofJob}/checkpoints`, showsMade: madeByCheckpoints },
    },
  },
  /** That a fine-tuning job has made; its id is the name by which it is called. */
  model: {
    name: 'fine-tuned model',
    remedy: 'GET /v1/models lists those that are',
    isKept: true,
    isOfUpstream: true,
    staysRemoved: true,
    calls: { deleteModel: { method: 'DELETE', path: '/models/{model}', effect: 'removes' } },
  },
  container: {
    name: 'container',
    remedy: 'GET /v1/containers lists those that are',
    index: 'userContainers',
    filter: 'name',
    pricedAs: 'container',
    describedBy: { name: ['name'] },
    namedBy: ['container', 'container_id'],
    // of a message of Anthropic's API
    continuedBy: { param: 'container', fields: ['container.id', 'container'] },
    isMadeOnce: true,
    calls: {
      createContainer: { method: 'POST', path: '/containers' },
      listContainers: { method: 'GET', path: ofContainer, lists: { order: 'desc' } },
      retrieveContainer: { method: 'GET', path: ofContainer },
      deleteContainer: { method: 'DELETE', path: ofContainer, effect: 'removes' },
      createContainerFile: { method: 'POST', path: `${ofContainer}/files`, showsParts: { param: 'file_id' } },
      listContainerFiles: { method: 'GET', path: `${ofContainer}/files`, showsParts: listedFiles },
      retrieveContainerFile: { method: 'GET', path: ofContainerFile },
      deleteContainerFile: { method: 'DELETE', path: ofContainerFile },
      downloadContainerFile: { method: 'GET', path: `${ofContainerFile}/content`, answers: 'file' },
    },
  },
  skill: {
    name: 'skill',
    remedy: 'GET /v1/skills lists those that are',
    index: 'userSkills',
    pricedAs: 'skill',
    describedBy: { name: ['name', 'display_name', 'display_title'] },
    namedBy: ['skill_id'],
    isKept: true,
    isMadeOnce: true,
    calls: {
      createSkill: { method: 'POST', path: '/skills' },
      listSkills: { method: 'GET', path: ofSkill, lists: { order: 'desc', leastAsked: 0 } },
      retrieveSkill: { method: 'GET', path: ofSkill },
      updateSkill: { method: 'POST', path: ofSkill },
      deleteSkill: { method: 'DELETE', path: ofSkill, effect: 'removes' },
      downloadSkill: { method: 'GET', path: `${ofSkill}/content`, answers: 'file' },
      createSkillVersion: { method: 'POST', path: `${ofSkill}/versions`, showsParts: { param: 'version' } },
      listSkillVersions: { method: 'GET', path: `${ofSkill}/versions`, showsParts: listedVersions },
      retrieveSkillVersion: { method: 'GET', path: ofSkillVersion },
      deleteSkillVersion: { method: 'DELETE', path: ofSkillVersion },
      downloadSkillVersion: { method: 'GET', path: `${ofSkillVersion}/content`, answers: 'file' },
    },
  },
  vector_store: {
    name: 'vector store',
    remedy: 'GET /v1/vector_stores lists those that are',
    index: 'userVectorStores',
    pricedAs: 'vector_store',
    describedBy: { name: ['name'], bytes: ['usage_bytes'] },
    namedBy: ['vector_store_ids'],
    isKept: true,
    isMadeOnce: true,
    calls: {
      createVectorStore: { method: 'POST', path: '/vector_stores' },
      listVectorStores: { method: 'GET', path: ofVectorStore, lists: { order: 'desc' } },
      retrieveVectorStore: { method: 'GET', path: ofVectorStore },
      updateVectorStore: { method: 'POST', path: ofVectorStore },
      deleteVectorStore: { method: 'DELETE', path: ofVectorStore, effect: 'removes' },
      searchVectorStore: { method: 'POST', path: `${ofVectorStore}/search` },
      createVectorStoreFile: { method: 'POST', path: `${ofVectorStore}/files` },
      listVectorStoreFiles: { method: 'GET', path: `${ofVectorStore}/files`, showsParts: listedFiles },
      retrieveVectorStoreFile: { method: 'GET', path: ofVectorStoreFile },
      updateVectorStoreFile: { method: 'POST', path: ofVectorStoreFile },
      deleteVectorStoreFile: { method: 'DELETE', path: ofVectorStoreFile },
      retrieveVectorStoreFileContent: { method: 'GET', path: `${ofVectorStoreFile}/content` },
      createVectorStoreFileBatch: {
        method: 'POST',
        path: `${ofVectorStore}/file_batches`,
        brings: { kind: 'file_batch' },
      },
      retrieveVectorStoreFileBatch: { method: 'GET', path: ofFileBatch },
      cancelVectorStoreFileBatch: { method: 'POST', path: `${ofFileBatch}/cancel` },
      listFilesInVectorStoreBatch: { method: 'GET', path: `${ofFileBatch}/files`, showsParts: listedFiles },
    },
  },
  container_file: {
    name: 'container file',
    remedy: 'GET /v1/containers/{container_id}/files lists those that are',
    notFound: 'file_not_found',
    partNames: ['id'],
    calls: {},
  },
  skill_version: {
    name: 'skill version',
    remedy: 'GET /v1/skills/{skill_id}/versions lists those that are',
    partNames: ['id', 'version'],
    calls: {},
  },
  file_batch: { name: 'file batch', remedy: givenId, notFound: 'batch_not_found', partNames: ['id'], calls: {} },
  realtime_call: {
    name: 'realtime call',
    remedy: givenId,
    isMadeOnce: true,
    calls: {
      hangupRealtimeCall: { method: 'POST', path: `${ofRealtimeCall}/hangup`, onlyEnds: true, answers: 'text' },
      referRealtimeCall: { method: 'POST', path: `${ofRealtimeCall}/refer`, answers: 'text' },
      rejectRealtimeCall: { method: 'POST', path: `${ofRealtimeCall}/reject`, onlyEnds: true, answers: 'text' },
    },
  },
  item: {
    name: 'item',
    remedy:
      'send the item itself in place of its id, or first retrieve the response, or list the items of the conversation, that it is in',
    isShared: true,
    calls: {},
  },
} as const satisfies Readonly<Record<string, KindRow>>;

export type StoredKind = keyof typeof rows;
export type StoredOperation = { [Kind in StoredKind]: keyof (typeof rows)[Kind]['calls'] }[StoredKind];

export const kinds: Readonly<Record<StoredKind, KindRow>> = rows;

/** One call about what an upstream keeps, and the kind of that. */
export interface StoredCall extends CallRow {
  readonly kind: StoredKind;
  /** Whether it counts as a request of its account: it has the upstream keep more, or work. */
  readonly isCounted: boolean;
}

function toStoredCall(kind: StoredKind, call: CallRow): StoredCall {
  const { work, bringsItems } = kinds[kind];
  return {
    kind,
    isCounted: call.method === 'POST' && !call.onlyEnds,
    ...(work && (call.showsEnd || call.lists) && { showsMade: work.makes }),
    ...(bringsItems && call.showsEnd && { showsParts: { param: 'item_id', list: bringsItems } }),
    ...call,
  };
}

/** operationId → call, of all kinds. */
export const storedCalls = Object.fromEntries(
  Object.entries(kinds).flatMap(([kind, { calls }]) =>
    Object.entries(calls).map(([operationId, call]) => [operationId, toStoredCall(kind as StoredKind, call)]),
  ),
) as Readonly<Record<StoredOperation, StoredCall>>;

/** The kinds whose objects are listed by themselves, and the index of each. */
export const listedKinds: ReadonlyMap<StoredKind, string> = new Map(
  Object.entries(kinds).flatMap(([kind, { index }]) => (index === undefined ? [] : [[kind as StoredKind, index]])),
);

/** The kind of what a call makes for its account; `undefined` where it makes nothing. */
export function madeBy(call: StoredCall): StoredKind | undefined {
  return call.brings?.kind ?? (idParameter(call) === undefined ? call.kind : undefined);
}

const parameter = /\{(\w+)\}/g;

/**
 * The path of one call. Only ids go up in it: with dots and encoded slashes, a path could lead elsewhere.
 * @throws GatewayError `invalid_value` for what is no id
 */
export function upstreamPath({ path }: Pick<StoredCall, 'path'>, params: Readonly<Record<string, string>>): string {
  return path.replace(parameter, (_, name: string) => {
    const value = params[name] as string;
    const isId = name === 'model' ? isModelName(value) : storedId.test(value);
    if (!isId) refuse('invalid_value', name, 'must be an id');
    return encodeURIComponent(value);
  });
}

/** An object has its id, a list or a page of content says what it is. */
export const storedResult = leastResult(['id', 'object', 'data', 'content']);

/** What a success of a call has at least; `undefined` where that may be anything: providers answer deletions as they like. */
export function resultOf({ method, answers }: Pick<StoredCall, 'method' | 'answers'>): LeastResult | undefined {
  return method === 'DELETE' || answers !== undefined ? undefined : storedResult;
}

/** The parameter that has the id of the stored object; `undefined` where the call makes one. */
export function idParameter({ path }: Pick<StoredCall, 'path'>): string | undefined {
  return path.match(parameter)?.[0].slice(1, -1);
}

/** The member of an object that says how the work on it goes. */
export function statusMember(kind: StoredKind): string {
  return kinds[kind].work?.statusIn ?? 'status';
}

/** Whether an upstream still works on an object, by the status that it says. */
export function runsOn(kind: StoredKind, status: unknown): boolean {
  const { runsWhile = [], work } = kinds[kind];
  return work ? !work.ends.some((end) => end === status) : runsWhile.some((state) => state === status);
}
