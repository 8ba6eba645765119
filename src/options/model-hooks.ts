import type { Principal } from './principal.ts';

/** One model call, as a host's hooks see it. */
export interface ModelCall {
  readonly requestId: string;
  readonly principal: Principal;
  /** Which endpoint: `/chat/completions`, `/embeddings`, … */
  readonly endpoint: string;
  /** The model asked for; `undefined` where the call names none. */
  readonly model: string | undefined;
  /** Whether the answer was asked for as a stream. */
  readonly stream: boolean;
}

/** An upstream's answer, when its head has come and nothing has been sent down yet. */
export interface ModelAnswer extends ModelCall {
  readonly upstream: string;
  readonly status: number;
  /** From the call's arrival to the head of the answer. Milliseconds. */
  readonly firstByteMs: number;
}

/**
 * How an answered call ended. `upstream_failed`: the answer broke off, or it said that it has failed, in which case nothing is charged.
 * `orphaned`: the process that relayed it died.
 */
export type CallEnding = 'complete' | 'client_left' | 'upstream_failed' | 'orphaned';

/** What a call about an object that upstreams keep has moved and made. */
export interface StoredUsage {
  /** Under which name of `credits.storedPrices` it is charged. */
  readonly kind: 'file' | 'container' | 'skill' | 'vector_store';
  /** Objects of this kind that it has made: 1 or 0. */
  readonly made: number;
  /** Sent up to the upstream, as the request's body has them. Bytes. */
  readonly uploadedBytes: number;
  /** Of a file, sent down to the client. Bytes. */
  readonly downloadedBytes: number;
}

/** Calls of the tools that providers run themselves, and charge by the call. */
export interface ToolCounts {
  /** Searches of the web; what a model opens of what it has found is none. @default none */
  readonly webSearchCalls?: number | undefined;
  /** Searches of files in vector stores. @default none */
  readonly fileSearchCalls?: number | undefined;
  /** Runs of code. @default none */
  readonly codeInterpreterCalls?: number | undefined;
}

/** What one answered call has used. */
export interface UsageRecord extends ToolCounts {
  /** `use_…`, unique. */
  readonly id: string;
  readonly requestId: string;
  readonly userId: string;
  /** The API key used; `null` where the host authenticates by other means. */
  readonly keyId: string | null;
  readonly endpoint: string;
  /** The model as the caller called it; `null` where the call named none. */
  readonly model: string | null;
  /** The upstream that answered. */
  readonly upstream: string;
  /** Cached ones included. */
  readonly inputTokens: number;
  /** Those of the input that the provider had in its cache, by its own word. */
  readonly cachedInputTokens: number;
  /** Those of the input that the provider wrote into its cache, by its own word. @default none */
  readonly cacheWriteTokens?: number | undefined;
  /** Those of these that it keeps for an hour. @default none */
  readonly cacheWriteHourTokens?: number | undefined;
  /** Reasoning included. */
  readonly outputTokens: number;
  /** Those of the output that were reasoning, by the provider's own word. */
  readonly reasoningTokens: number;
  /** Those of the input that were audio, cached ones included, by the provider's own word. @default none */
  readonly inputAudioTokens?: number | undefined;
  /** Those of the input that were audio, and that the provider had in its cache. @default none */
  readonly cachedInputAudioTokens?: number | undefined;
  /** Those of the output that were audio, by the provider's own word. @default none */
  readonly outputAudioTokens?: number | undefined;
  readonly images: number;
  /** The models by which a hosted tool may have made the images, as the caller called them. @default `model` has made them */
  readonly imageModels?: readonly string[] | undefined;
  /** Of audio that was transcribed or translated; 0 where the upstream counts tokens. */
  readonly seconds: number;
  /** Of text that was spoken; 0 where the upstream counts tokens. */
  readonly characters: number;
  /** Of reranks and endpoints of your own: those that the answer says, or those to expect. @default none */
  readonly units?: number | undefined;
  /** Of a call that has moved a file, or made an object that has a price; it is no model call. @default none */
  readonly stored?: StoredUsage | undefined;
  /** Whether tokens or seconds are an estimate, because the upstream reported none or the answer broke off. */
  readonly estimated: boolean;
  readonly ending: CallEnding;
  readonly startedAt: Date;
  /** From the call's arrival to its end. Milliseconds. */
  readonly durationMs: number;
  /** From the call's arrival to the head of the answer; 0 when the client had left before. Milliseconds. */
  readonly firstByteMs: number;
}

/** A call that is under way: what is known before its answer, with an estimate of its usage in case no answer is seen. */
export type OpenUsage = Pick<
  UsageRecord,
  | 'id'
  | 'requestId'
  | 'userId'
  | 'keyId'
  | 'endpoint'
  | 'model'
  | 'upstream'
  | 'inputTokens'
  | 'imageModels'
  | 'seconds'
  | 'characters'
  | 'units'
  | 'startedAt'
>;

/** What `onRequest` may return: the name of another model to call, or nothing. */
// biome-ignore lint/suspicious/noConfusingVoidType: what a function returns that ends without `return`
type RequestChange = { readonly model?: string } | undefined | void;

/** Hooks. Functions of the host that the gateway calls about model calls. */
export interface ModelHooks {
  /**
   * Called before a call is routed. It may refuse the call by throwing a `GatewayError`, or return the name of another model
   * to call. Any other error is answered `internal_error` and logged.
   * @when you have rules of your own
   */
  onRequest?(call: ModelCall): RequestChange | Promise<RequestChange>;
  /** Called when an upstream has answered. The gateway does not wait for it; an error is logged and changes nothing. @when you watch upstreams yourself */
  onResponse?(answer: ModelAnswer): void | Promise<void>;
  /** Called when an answered call has ended. The gateway does not wait for it; an error is logged and changes nothing. @when you keep records of your own */
  onUsage?(record: UsageRecord): void | Promise<void>;
}

/** What hosted tools may do for a call. */
export interface RequestedTools extends ToolCounts {
  /** @default none */
  readonly images?: number;
  /** The models that may make them. @default none are made */
  readonly imageModels?: readonly string[];
}

/** What a call asks for, which credits reserve for. */
export interface RequestedOutput {
  /** Answers, or images, that are asked for: one unless the request says more. */
  readonly choices: number;
  /** The field that asks for several. @default none does */
  readonly choicesField?: string | undefined;
  /** The most tokens that each may have; `undefined` where the request does not say. */
  readonly maxTokens: number | undefined;
  /** The field that says so, or could. @default none can */
  readonly limitField?: string | undefined;
  /** The most tokens that answers beside these may have. @default there are none */
  readonly furtherTokens?: number;
  /** The estimated length of the recording that is sent. Seconds. @default 0 */
  readonly seconds?: number;
  /** The length of the text that is to be spoken. Characters. @default 0 */
  readonly characters?: number;
  /** The units to expect, of reranks and endpoints of your own. @default none */
  readonly units?: number;
  /** How long the provider may keep the input that it writes into its cache, and counts. @default it writes none */
  readonly writesCache?: '5m' | '1h';
  /** The calls of hosted tools to expect: one of each that the request brings, or `max_tool_calls` of each, or the sum of their `max_uses`. @default none */
  readonly tools?: RequestedTools | undefined;
  /** The field that would say how long what is sent is. @default it is known */
  readonly lengthField?: string | undefined;
  /** What a call about an object that upstreams keep moves and makes, as far as it says so. @default nothing */
  readonly stored?: StoredUsage | undefined;
  /**
   * What of it counts before it has ended: a request and its tokens, only tokens where its request was counted before, or neither where that has ended when
   * it has. Credits are reserved in any case, and what budgets have of them and of tokens. @default 'request'
   */
  readonly counts?: 'request' | 'tokens' | 'nothing';
}
