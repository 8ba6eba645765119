import { refuse } from '../../errors.ts';
import { type StoredKind, storedId } from '../ownership/stored-objects.ts';

/** One endpoint about what an upstream keeps: what is the same for every call of it. */
export interface StoredEndpoint {
  readonly kind: StoredKind;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below an upstream's base URL. The first parameter is the id of the stored object. */
  readonly path: string;
  /** Whether it makes such an object, ends one, or changes what is attached to one. @default none of them */
  readonly effect?: 'creates' | 'removes' | 'changesMetadata';
  /** Whether its body may have `items`. @default false */
  readonly takesItems?: boolean;
  /** Where its answer has items: in a list of it, or it is the one that a parameter names. @default nowhere */
  readonly showsItems?: 'output' | 'data' | 'item';
  /** Whether its answer is the response, which may have ended. @default false */
  readonly showsEnd?: boolean;
}

const response = { kind: 'response' } as const;
const conversation = { kind: 'conversation' } as const;
const chat = { kind: 'chat_completion' } as const;

const ofResponse = '/responses/{response_id}';
const ofConversation = '/conversations/{conversation_id}';
const ofItem = `${ofConversation}/items/{item_id}`;
const ofChat = '/chat/completions/{completion_id}';

/** operationId → endpoint. */
export const storedEndpoints = {
  retrieveResponse: { ...response, method: 'GET', path: ofResponse, showsEnd: true, showsItems: 'output' },
  deleteResponse: { ...response, method: 'DELETE', path: ofResponse, effect: 'removes' },
  cancelResponse: { ...response, method: 'POST', path: `${ofResponse}/cancel`, showsEnd: true, showsItems: 'output' },
  listResponseInputItems: { ...response, method: 'GET', path: `${ofResponse}/input_items`, showsItems: 'data' },
  createConversation: { ...conversation, method: 'POST', path: '/conversations', effect: 'creates', takesItems: true },
  retrieveConversation: { ...conversation, method: 'GET', path: ofConversation },
  updateConversation: { ...conversation, method: 'POST', path: ofConversation },
  deleteConversation: { ...conversation, method: 'DELETE', path: ofConversation, effect: 'removes' },
  createConversationItems: {
    ...conversation,
    method: 'POST',
    path: `${ofConversation}/items`,
    takesItems: true,
    showsItems: 'data',
  },
  listConversationItems: { ...conversation, method: 'GET', path: `${ofConversation}/items`, showsItems: 'data' },
  retrieveConversationItem: { ...conversation, method: 'GET', path: ofItem, showsItems: 'item' },
  deleteConversationItem: { ...conversation, method: 'DELETE', path: ofItem },
  retrieveChatCompletion: { ...chat, method: 'GET', path: ofChat },
  updateChatCompletion: { ...chat, method: 'POST', path: ofChat, effect: 'changesMetadata' },
  deleteChatCompletion: { ...chat, method: 'DELETE', path: ofChat, effect: 'removes' },
  listChatCompletionMessages: { ...chat, method: 'GET', path: `${ofChat}/messages` },
} as const satisfies Readonly<Record<string, StoredEndpoint>>;

const parameter = /\{(\w+)\}/g;

/**
 * The path of one call. Only ids go up in it: with dots and encoded slashes, a path could lead elsewhere. Pure.
 * @throws GatewayError `invalid_value` for what is no id
 */
export function upstreamPath({ path }: Pick<StoredEndpoint, 'path'>, params: Readonly<Record<string, string>>): string {
  return path.replace(parameter, (_, name: string) => {
    const value = params[name] as string;
    if (!storedId.test(value)) refuse('invalid_value', name, 'must be an id');
    return encodeURIComponent(value);
  });
}

/** The parameter that has the id of the stored object; `undefined` where the endpoint makes one. Pure. */
export function idParameter({ path }: Pick<StoredEndpoint, 'path'>): string | undefined {
  return path.match(parameter)?.[0].slice(1, -1);
}
