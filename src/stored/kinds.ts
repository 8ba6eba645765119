import { refuse } from '../errors.ts';
import type { OperationTable } from '../http/operation.ts';
import type { OpenUsage } from '../options/options.ts';

/** The ids of what upstreams keep, as openapi.yaml describes them: no provider has others, and they are safe in a path. */
export const storedId = /^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,255}$/;

/** No provider's ids are longer. Characters. */
export const longestId = 256;

/** One call about what an upstream keeps. */
interface CallRow {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below an upstream's base URL. The first parameter is the id of the stored object; a call without one makes an object. */
  readonly path: string;
  /** Whether it ends an object, or changes what is attached to one. @default neither */
  readonly effect?: 'removes' | 'changesMetadata';
  /** Whether it has the upstream keep more, and so counts as a request of its account. @default false */
  readonly keepsMore?: boolean;
  /** Whether its body may have `items`. @default false */
  readonly takesItems?: boolean;
  /** Where its answer has items: in a list of it, or it is the one that a parameter names. @default nowhere */
  readonly showsItems?: 'output' | 'data' | 'item';
  /** Whether its answer is the response, which may have ended. @default false */
  readonly showsEnd?: boolean;
  /** Whether it lists the account's objects: which they are says the gateway, each is read by this path. @default false */
  readonly lists?: boolean;
}

interface KindRow {
  /** What errors call it. */
  readonly name: string;
  /** What to do about one that is not known. */
  readonly remedy: string;
  /** How a request names one that it continues: the first of these fields counts, and errors call it `param`. @default not at all */
  readonly continuedBy?: { readonly param: string; readonly fields: readonly string[] };
  /** The member of an event that has the new object. @default the event is the object */
  readonly eventMember?: 'response';
  /** Where the answer that brings a new one has items. @default nowhere */
  readonly bringsItems?: 'output';
  /** Whether upstreams keep it until it is deleted. @default false: it is forgotten after `storedRetentionDays` */
  readonly isKept?: boolean;
  /** Whether several accounts may have ones of the same id. @default false */
  readonly isShared?: boolean;
  /** Whether the gateway remembers the metadata of it: lists are filtered by that. @default false */
  readonly hasMetadata?: boolean;
  /** Which calls there are about it, by operationId. */
  readonly calls: { readonly [OperationId in keyof OperationTable]?: CallRow };
}

const givenId = 'use an id that this account was given';

const ofResponse = '/responses/{response_id}';
const ofConversation = '/conversations/{conversation_id}';
const ofItem = `${ofConversation}/items/{item_id}`;
const ofChat = '/chat/completions/{completion_id}';

/** What upstreams keep for accounts. Everything that is special about one kind is in its row. */
const rows = {
  response: {
    name: 'response',
    remedy: givenId,
    continuedBy: { param: 'previous_response_id', fields: ['previous_response_id'] },
    eventMember: 'response',
    bringsItems: 'output',
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
      createConversation: { method: 'POST', path: '/conversations', keepsMore: true, takesItems: true },
      retrieveConversation: { method: 'GET', path: ofConversation },
      updateConversation: { method: 'POST', path: ofConversation, keepsMore: true },
      deleteConversation: { method: 'DELETE', path: ofConversation, effect: 'removes' },
      createConversationItems: {
        method: 'POST',
        path: `${ofConversation}/items`,
        keepsMore: true,
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
      listChatCompletions: { method: 'GET', path: ofChat, lists: true },
      retrieveChatCompletion: { method: 'GET', path: ofChat },
      updateChatCompletion: { method: 'POST', path: ofChat, keepsMore: true, effect: 'changesMetadata' },
      deleteChatCompletion: { method: 'DELETE', path: ofChat, effect: 'removes' },
      listChatCompletionMessages: { method: 'GET', path: `${ofChat}/messages` },
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

/** What is known of the usage of a response that its upstream makes after the call for it has been answered. */
export interface BackgroundUsage extends OpenUsage {
  /** From the call's arrival to the head of the answer. Milliseconds. */
  readonly firstByteMs: number;
  /** Whether the output can be streamed while it is made. @default false */
  readonly streams?: boolean;
  /** The most output tokens that the request allows. @default no limit */
  readonly maxOutputTokens?: number;
}

/** Whose something that an upstream keeps is, and which upstream keeps it. */
export interface StoredObject {
  /** As the upstream has named it: `resp_…`, `conv_…`, `chatcmpl-…`, `msg_…`. */
  readonly id: string;
  readonly kind: StoredKind;
  /** The account. */
  readonly userId: string;
  /** The name of the upstream that keeps it. */
  readonly upstream: string;
  /** The model as the caller called it; `null` where the call named none. */
  readonly model: string | null;
  /** What its caller has attached to it. @default nothing */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Of a response that is made in the background, while it is not counted. */
  readonly background?: BackgroundUsage;
}

/** A response that is made in the background and has not been counted yet. */
export interface BackgroundResponse extends StoredObject {
  readonly background: BackgroundUsage;
}

/** Whether this is a response that is made in the background and is not counted. */
export function isUncounted(object: StoredObject | undefined): object is BackgroundResponse {
  return object?.background !== undefined;
}

/** Whether an upstream works on a response after the call for it has been answered, by the status in that answer. Pure. */
export function runsOn(status: unknown): boolean {
  return status === 'queued' || status === 'in_progress';
}
