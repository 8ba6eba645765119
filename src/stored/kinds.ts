import { refuse } from '../errors.ts';
import type { OperationTable } from '../http/operation.ts';
import type { OpenUsage } from '../options/options.ts';

/** The ids of what upstreams keep, as openapi.yaml describes them: no provider has others, and they are safe in a path. */
export const storedId = /^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,255}$/;

/** Whether a value from outside is such an id. Pure. */
export function isStoredId(value: unknown): value is string {
  return typeof value === 'string' && storedId.test(value);
}

/** No provider's ids are longer. Characters. */
export const longestId = 256;

/** One call about what an upstream keeps. */
interface CallRow {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below an upstream's base URL. The first parameter is the id of the stored object; a call without one makes an object. */
  readonly path: string;
  /** Whether it ends an object, or changes what is attached to one. @default neither */
  readonly effect?: 'removes' | 'changesMetadata';
  /** Whether it counts as a request of its account: it has the upstream keep more, or work. @default false */
  readonly isCounted?: boolean;
  /** Whether its body may have `items`. @default false */
  readonly takesItems?: boolean;
  /** Where its answer has items: in a list of it, or it is the one that a parameter names. @default nowhere */
  readonly showsItems?: 'output' | 'data' | 'item';
  /** Whether its answer is the object, on which its upstream may have ended its work. @default false */
  readonly showsEnd?: boolean;
  /** Whether it lists the account's objects: which they are says the gateway, each is read by this path. @default false */
  readonly lists?: ListRow;
  /** Whether it makes a file, of which an account may have so many, or is a step to one. @default false */
  readonly makesFile?: boolean;
  /** Whether its body is a file, which goes up as it comes and is never held. @default false */
  readonly streamsUp?: boolean;
  /** Whether its answer is the bytes of a file. @default false: it is JSON */
  readonly answersBytes?: boolean;
  /** Whether its answer is empty. @default false: it is JSON */
  readonly answersNothing?: boolean;
  /** An object of another kind that its answer brings, and the member that has it, or the answer itself. @default none */
  readonly brings?: { readonly kind: 'file' | 'part'; readonly member?: string };
  /** Members of its answer that are ids of files, which its upstream has made for the account. @default none */
  readonly showsFiles?: readonly string[];
  /** Whether it has its upstream work through a file of requests, which the account pays for when that has ended. @default false */
  readonly runsFile?: boolean;
}

/** What is special about the list of a kind. */
interface ListRow {
  /** The name of the index that serves it. */
  readonly index: string;
  /** @default 'asc' */
  readonly order?: 'asc' | 'desc';
  /** The most that clients may ask for; a page has 100 at most nevertheless. @default 100 */
  readonly mostAsked?: number;
  /** A parameter of the query, and the member of a new object that must be equal to it. @default none */
  readonly filter?: string;
}

interface KindRow {
  /** What errors call it. */
  readonly name: string;
  /** What to do about one that is not known. */
  readonly remedy: string;
  /**
   * Keys under which a request names some, wherever they stand in it: a text or a list of texts. In lower case, each with `e_id`, `r_id`, `t_id`
   * or `ill_id` in it, or `container`. @default none
   */
  readonly namedBy?: readonly string[];
  /** How a request names one that it continues: the first of these fields counts, and errors call it `param`. @default not at all */
  readonly continuedBy?: { readonly param: string; readonly fields: readonly string[] };
  /** The member of an event that has the new object. @default the event is the object */
  readonly eventMember?: 'response';
  /** Where the answer that brings a new one has items. @default nowhere */
  readonly bringsItems?: 'output';
  /** Whether upstreams keep it until it is deleted. @default false: it is forgotten after `storedRetentionDays` */
  readonly isKept?: boolean;
  /** Whether a second one, which nobody knows of, takes room or costs something: a call that makes one is sent once. @default false */
  readonly isMadeOnce?: boolean;
  /** Whether several accounts may have ones of the same id. @default false */
  readonly isShared?: boolean;
  /** Whether the gateway remembers the metadata of it: lists are filtered by that. @default false */
  readonly hasMetadata?: boolean;
  /** With which `status` its upstream still works on one. @default never */
  readonly runsWhile?: readonly string[];
  /**
   * What its upstreams work on for long, and always: with which `status` that has ended, and for how long one is asked for at least, in milliseconds.
   * @default it is made when the call is answered, or as `runsWhile` says
   */
  readonly work?: { readonly ends: readonly string[]; readonly followedFor: number };
  /** Which calls there are about it, by operationId. */
  readonly calls: { readonly [OperationId in keyof OperationTable]?: CallRow };
}

/** Providers end a batch after a day, whether it is done or not. Milliseconds. */
const longestBatch = 2 * 86_400_000;
/** What a batch has made, and which of its requests have failed. */
const batchFiles = ['output_file_id', 'error_file_id'];

const givenId = 'use an id that this account was given';

const ofResponse = '/responses/{response_id}';
const ofConversation = '/conversations/{conversation_id}';
const ofItem = `${ofConversation}/items/{item_id}`;
const ofChat = '/chat/completions/{completion_id}';
const ofFile = '/files/{file_id}';
const ofUpload = '/uploads/{upload_id}';
const ofBatch = '/batches/{batch_id}';
const ofContainer = '/containers/{container_id}';
const ofContainerFile = `${ofContainer}/files/{file_id}`;
const ofSkill = '/skills/{skill_id}';
const ofSkillVersion = `${ofSkill}/versions/{version}`;
const ofRealtimeCall = '/realtime/calls/{call_id}';
const ofVectorStore = '/vector_stores/{vector_store_id}';
const ofVectorStoreFile = `${ofVectorStore}/files/{file_id}`;
const ofFileBatch = `${ofVectorStore}/file_batches/{batch_id}`;

/** What upstreams keep for accounts. Everything that is special about one kind is in its row. */
const rows = {
  response: {
    name: 'response',
    remedy: givenId,
    continuedBy: { param: 'previous_response_id', fields: ['previous_response_id'] },
    eventMember: 'response',
    bringsItems: 'output',
    runsWhile: ['queued', 'in_progress'],
    calls: {
      retrieveResponse: { method: 'GET', path: ofResponse, showsEnd: true, showsItems: 'output' },
      deleteResponse: { method: 'DELETE', path: ofResponse, effect: 'removes' },
      cancelResponse: { method: 'POST', path: `${ofResponse}/cancel`, showsEnd: true, showsItems: 'output' },
      listResponseInputItems: { method: 'GET', path: `${ofResponse}/input_items`, showsItems: 'data' },
    },
  },
  conversation: {
    name: 'conversation',
    remedy: givenId,
    continuedBy: { param: 'conversation', fields: ['conversation.id', 'conversation'] },
    isKept: true,
    calls: {
      createConversation: { method: 'POST', path: '/conversations', isCounted: true, takesItems: true },
      retrieveConversation: { method: 'GET', path: ofConversation },
      updateConversation: { method: 'POST', path: ofConversation, isCounted: true },
      deleteConversation: { method: 'DELETE', path: ofConversation, effect: 'removes' },
      createConversationItems: {
        method: 'POST',
        path: `${ofConversation}/items`,
        isCounted: true,
        takesItems: true,
        showsItems: 'data',
      },
      listConversationItems: { method: 'GET', path: `${ofConversation}/items`, showsItems: 'data' },
      retrieveConversationItem: { method: 'GET', path: ofItem, showsItems: 'item' },
      deleteConversationItem: { method: 'DELETE', path: ofItem },
    },
  },
  chat_completion: {
    name: 'chat completion',
    remedy: 'GET /v1/chat/completions lists those that are',
    hasMetadata: true,
    calls: {
      listChatCompletions: { method: 'GET', path: ofChat, lists: { index: 'userChats' } },
      retrieveChatCompletion: { method: 'GET', path: ofChat },
      updateChatCompletion: { method: 'POST', path: ofChat, isCounted: true, effect: 'changesMetadata' },
      deleteChatCompletion: { method: 'DELETE', path: ofChat, effect: 'removes' },
      listChatCompletionMessages: { method: 'GET', path: `${ofChat}/messages` },
    },
  },
  file: {
    name: 'file',
    remedy: 'GET /v1/files lists those that are',
    namedBy: ['file_id', 'file_ids', 'input_file_id'],
    isKept: true,
    isMadeOnce: true,
    calls: {
      createFile: { method: 'POST', path: '/files', isCounted: true, makesFile: true, streamsUp: true },
      listFiles: {
        method: 'GET',
        path: ofFile,
        lists: { index: 'userFiles', order: 'desc', mostAsked: 10_000, filter: 'purpose' },
      },
      retrieveFile: { method: 'GET', path: ofFile },
      deleteFile: { method: 'DELETE', path: ofFile, effect: 'removes' },
      downloadFile: { method: 'GET', path: `${ofFile}/content`, answersBytes: true },
    },
  },
  upload: {
    name: 'upload',
    remedy: givenId,
    isMadeOnce: true,
    calls: {
      createUpload: { method: 'POST', path: '/uploads', isCounted: true, makesFile: true },
      addUploadPart: {
        method: 'POST',
        path: `${ofUpload}/parts`,
        isCounted: true,
        streamsUp: true,
        brings: { kind: 'part' },
      },
      completeUpload: {
        method: 'POST',
        path: `${ofUpload}/complete`,
        isCounted: true,
        makesFile: true,
        brings: { kind: 'file', member: 'file' },
      },
      cancelUpload: { method: 'POST', path: `${ofUpload}/cancel`, isCounted: true },
    },
  },
  part: { name: 'part of an upload', remedy: givenId, namedBy: ['part_ids'], isMadeOnce: true, calls: {} },
  batch: {
    name: 'batch',
    remedy: 'GET /v1/batches lists those that are',
    isKept: true,
    work: { ends: ['completed', 'failed', 'expired', 'cancelled'], followedFor: longestBatch },
    isMadeOnce: true,
    calls: {
      createBatch: { method: 'POST', path: '/batches', isCounted: true, runsFile: true },
      listBatches: {
        method: 'GET',
        path: ofBatch,
        lists: { index: 'userBatches', order: 'desc' },
        showsFiles: batchFiles,
      },
      retrieveBatch: { method: 'GET', path: ofBatch, showsEnd: true, showsFiles: batchFiles },
      cancelBatch: { method: 'POST', path: `${ofBatch}/cancel`, showsEnd: true, showsFiles: batchFiles },
    },
  },
  container: {
    name: 'container',
    remedy: 'GET /v1/containers lists those that are',
    namedBy: ['container', 'container_id'],
    isMadeOnce: true,
    calls: {
      createContainer: { method: 'POST', path: '/containers', isCounted: true },
      listContainers: {
        method: 'GET',
        path: ofContainer,
        lists: { index: 'userContainers', order: 'desc', filter: 'name' },
      },
      retrieveContainer: { method: 'GET', path: ofContainer },
      deleteContainer: { method: 'DELETE', path: ofContainer, effect: 'removes' },
      createContainerFile: { method: 'POST', path: `${ofContainer}/files`, isCounted: true },
      listContainerFiles: { method: 'GET', path: `${ofContainer}/files` },
      retrieveContainerFile: { method: 'GET', path: ofContainerFile },
      deleteContainerFile: { method: 'DELETE', path: ofContainerFile },
      downloadContainerFile: { method: 'GET', path: `${ofContainerFile}/content`, answersBytes: true },
    },
  },
  skill: {
    name: 'skill',
    remedy: 'GET /v1/skills lists those that are',
    namedBy: ['skill_id'],
    isKept: true,
    isMadeOnce: true,
    calls: {
      createSkill: { method: 'POST', path: '/skills', isCounted: true },
      listSkills: { method: 'GET', path: ofSkill, lists: { index: 'userSkills', order: 'desc' } },
      retrieveSkill: { method: 'GET', path: ofSkill },
      updateSkill: { method: 'POST', path: ofSkill, isCounted: true },
      deleteSkill: { method: 'DELETE', path: ofSkill, effect: 'removes' },
      downloadSkill: { method: 'GET', path: `${ofSkill}/content`, answersBytes: true },
      createSkillVersion: { method: 'POST', path: `${ofSkill}/versions`, isCounted: true },
      listSkillVersions: { method: 'GET', path: `${ofSkill}/versions` },
      retrieveSkillVersion: { method: 'GET', path: ofSkillVersion },
      deleteSkillVersion: { method: 'DELETE', path: ofSkillVersion },
      downloadSkillVersion: { method: 'GET', path: `${ofSkillVersion}/content`, answersBytes: true },
    },
  },
  vector_store: {
    name: 'vector store',
    remedy: 'GET /v1/vector_stores lists those that are',
    namedBy: ['vector_store_ids'],
    isKept: true,
    isMadeOnce: true,
    calls: {
      createVectorStore: { method: 'POST', path: '/vector_stores', isCounted: true },
      listVectorStores: { method: 'GET', path: ofVectorStore, lists: { index: 'userVectorStores', order: 'desc' } },
      retrieveVectorStore: { method: 'GET', path: ofVectorStore },
      updateVectorStore: { method: 'POST', path: ofVectorStore, isCounted: true },
      deleteVectorStore: { method: 'DELETE', path: ofVectorStore, effect: 'removes' },
      searchVectorStore: { method: 'POST', path: `${ofVectorStore}/search`, isCounted: true },
      createVectorStoreFile: { method: 'POST', path: `${ofVectorStore}/files`, isCounted: true },
      listVectorStoreFiles: { method: 'GET', path: `${ofVectorStore}/files` },
      retrieveVectorStoreFile: { method: 'GET', path: ofVectorStoreFile },
      updateVectorStoreFile: { method: 'POST', path: ofVectorStoreFile, isCounted: true },
      deleteVectorStoreFile: { method: 'DELETE', path: ofVectorStoreFile },
      retrieveVectorStoreFileContent: { method: 'GET', path: `${ofVectorStoreFile}/content` },
      createVectorStoreFileBatch: { method: 'POST', path: `${ofVectorStore}/file_batches`, isCounted: true },
      retrieveVectorStoreFileBatch: { method: 'GET', path: ofFileBatch },
      cancelVectorStoreFileBatch: { method: 'POST', path: `${ofFileBatch}/cancel`, isCounted: true },
      listFilesInVectorStoreBatch: { method: 'GET', path: `${ofFileBatch}/files` },
    },
  },
  realtime_call: {
    name: 'realtime call',
    remedy: givenId,
    isMadeOnce: true,
    calls: {
      hangupRealtimeCall: { method: 'POST', path: `${ofRealtimeCall}/hangup`, answersNothing: true },
      referRealtimeCall: { method: 'POST', path: `${ofRealtimeCall}/refer`, isCounted: true, answersNothing: true },
      rejectRealtimeCall: { method: 'POST', path: `${ofRealtimeCall}/reject`, answersNothing: true },
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
}

/** operationId → call, of all kinds. */
export const storedCalls = Object.fromEntries(
  Object.entries(kinds).flatMap(([kind, { calls }]) =>
    Object.entries(calls).map(([operationId, call]) => [operationId, { kind, ...call }]),
  ),
) as Readonly<Record<StoredOperation, StoredCall>>;

/** The member of a kind's objects that a list of them can be filtered by; `undefined` where there is none. */
export function filterOf(kind: StoredKind): string | undefined {
  return filters.get(kind);
}

const filters = new Map(
  Object.values(storedCalls).flatMap(({ kind, lists }) => (lists?.filter === undefined ? [] : [[kind, lists.filter]])),
);

/** The kind of what a call makes for its account; `undefined` where it makes nothing. Pure. */
export function madeBy(call: StoredCall): StoredKind | undefined {
  return call.brings?.kind ?? (idParameter(call) === undefined ? call.kind : undefined);
}

const parameter = /\{(\w+)\}/g;

/**
 * The path of one call. Only ids go up in it: with dots and encoded slashes, a path could lead elsewhere. Pure.
 * @throws GatewayError `invalid_value` for what is no id
 */
export function upstreamPath({ path }: Pick<StoredCall, 'path'>, params: Readonly<Record<string, string>>): string {
  return path.replace(parameter, (_, name: string) => {
    const value = params[name] as string;
    if (!storedId.test(value)) refuse('invalid_value', name, 'must be an id');
    return encodeURIComponent(value);
  });
}

/** The parameter that has the id of the stored object; `undefined` where the call makes one. Pure. */
export function idParameter({ path }: Pick<StoredCall, 'path'>): string | undefined {
  return path.match(parameter)?.[0].slice(1, -1);
}

/** What is known of the usage of what an upstream works on after the call for it has been answered: a response, or a batch. */
export interface BackgroundUsage extends OpenUsage {
  /** From the call's arrival to the head of the answer. Milliseconds. */
  readonly firstByteMs: number;
  /** Whether the output can be streamed while it is made. @default false */
  readonly streams?: boolean;
  /** The most output tokens that the request allows. @default no limit */
  readonly maxOutputTokens?: number;
  /** Of a batch: the answers that it asks for. @default 1 */
  readonly choices?: number;
}

/** Whose something that an upstream keeps is, and which upstream keeps it. */
export interface StoredObject {
  /** As the upstream has named it: `resp_…`, `conv_…`, `chatcmpl-…`, `file-…`, `batch_…`, `cntr_…`, `skill_…`, `vs_…`, `rtc_…`, `msg_…`. */
  readonly id: string;
  readonly kind: StoredKind;
  /** The account. */
  readonly userId: string;
  /** The name of the upstream that keeps it. */
  readonly upstream: string;
  /** The model as the caller called it; `null` where the call named none. */
  readonly model: string | null;
  /** Whether its upstream did not know it when it was last listed. @default false */
  readonly isMissing?: boolean;
  /** What its caller has attached to it, and what a list of its kind can be filtered by. @default nothing */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Of a response that is made in the background, or a batch, while it is not counted. */
  readonly background?: BackgroundUsage;
}

/** A response that is made in the background, or a batch, that has not been counted yet. */
export interface BackgroundResponse extends StoredObject {
  readonly background: BackgroundUsage;
}

/** Whether this is a response that is made in the background, or a batch, and is not counted. */
export function isUncounted(object: StoredObject | undefined): object is BackgroundResponse {
  return object?.background !== undefined;
}

/** Whether an upstream still works on an object, by the status that it says. Pure. */
export function runsOn(kind: StoredKind, status: unknown): boolean {
  const { runsWhile = [], work } = kinds[kind];
  return work ? !work.ends.some((end) => end === status) : runsWhile.some((state) => state === status);
}
