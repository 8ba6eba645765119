import type { ApiRequest } from '../http/operation.ts';
import type { OpenUsage, RequestedTools } from '../options/options.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import type { KeptKind } from './endpoint.ts';
import type { AccountModels } from './model-list.ts';
import type { Upstream } from './upstream.ts';

/** What is known of the usage of what an upstream works on after the call for it has been answered: a response, a batch or a fine-tuning job. */
export interface BackgroundUsage extends OpenUsage {
  /** From the call's arrival to the head of the answer. Milliseconds. */
  readonly firstByteMs: number;
  /** Whether the output can be streamed while it is made. @default false */
  readonly streams?: boolean;
  /** The most output tokens that the request allows. @default no limit */
  readonly maxOutputTokens?: number;
  /** Of a batch: what hosted tools may do for it. @default nothing */
  readonly tools?: RequestedTools;
}

/** What may run on after the answer: its usage, and what is called when that is stored. */
export interface BackgroundWork {
  readonly usage: BackgroundUsage;
  readonly onRunning: (id: string) => void;
}

/** What an upstream is to keep of a call. */
export interface RequestedStorage {
  readonly kind: KeptKind;
  /** What the caller attaches to it. @default nothing */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** An answer of which an upstream may keep something, as it begins. */
interface WhoseAnswer {
  /** The account. */
  readonly userId: string;
  readonly upstream: string;
  /** As the caller called it; `null` where the call named none. */
  readonly model: string | null;
  readonly keyId: string | undefined;
  /** The path of the call below `/v1`. */
  readonly endpoint: string;
}

/** What an upstream keeps of a call. */
interface KeptAnswer extends RequestedStorage, WhoseAnswer {}

/** What upstreams keep for accounts, as model calls need it. */
export interface CallStorage {
  /** The fine-tuned models of accounts. */
  readonly models: AccountModels;
  /** @throws GatewayError `database_unavailable` if nothing can be stored at present */
  require(): void;
  /** Reads what a call says of what its upstream is to keep. */
  requested(kind: KeptKind, apiRequest: ApiRequest): RequestedStorage;
  /**
   * Those of the upstreams that keep all that a call refers to.
   * @param names whether the call can name what is kept in a field of its own, as one that continues it does
   * @throws GatewayError `response_not_found` and so on where that is not the account's own, `database_unavailable`, `request_too_large`
   */
  keepers(apiRequest: ApiRequest, names: boolean, upstreams: readonly Upstream[]): Promise<readonly Upstream[]>;
  /**
   * An answer of which the upstream keeps something: its bytes come when it is stored whose that is.
   * @throws GatewayError `upstream_invalid_response` where it cannot be read
   */
  owned<Answer extends Pick<OutboundResponse, 'headers' | 'data'>>(
    answer: Answer,
    kept: KeptAnswer,
    background: BackgroundWork | undefined,
  ): Answer;
  /** A message that may name the container of its account that it was made in: its client gets that name when it is stored whose it is. */
  inContainer<Answer extends Pick<OutboundResponse, 'headers' | 'data'>>(answer: Answer, whose: WhoseAnswer): Answer;
}
