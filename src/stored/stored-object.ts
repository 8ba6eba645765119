import type { BackgroundUsage } from '../proxy/call-storage.ts';
import type { StoredKind } from './kinds.ts';

/** What is known of how something that an upstream keeps was made. */
export interface Origin {
  /** The API key of the call. @default its caller has none, or the call is not known */
  readonly keyId?: string;
  /** The path of the call below `/v1`, such as `/files`. @default it was made for another object */
  readonly endpoint?: string;
  /** The object that it was made for or of: the batch of a file that has answers, the upload of a file in parts. @default none */
  readonly parent?: string;
}

/** How something was made by a call below an endpoint. */
export function originOf(keyId: string | undefined, endpoint: string, parent?: string): Origin {
  return { endpoint, ...(keyId !== undefined && { keyId }), ...(parent !== undefined && { parent }) };
}

/** Whose something that an upstream keeps is, and which upstream keeps it. */
export interface StoredObject {
  /** As the upstream has named it: `resp_…`, `conv_…`, `chatcmpl-…`, `file-…`, `batch_…`, `ftjob-…`, `ft:…`, `cntr_…`, `skill_…`, `vs_…`, `rtc_…`, `msg_…`. */
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
  /** @default not known */
  readonly origin?: Origin;
  /** As its upstream called it when it was made. @default not known */
  readonly name?: string;
  /** How large its upstream said that it is when it was made. Bytes. @default not known */
  readonly bytes?: number;
  /** Of what an upstream works on after the call, while it is not counted. */
  readonly background?: BackgroundUsage;
}

/** What an upstream works on after the call for it, and has not been counted yet. */
export interface BackgroundResponse extends StoredObject {
  readonly background: BackgroundUsage;
}

/** Whether an upstream works on it after the call for it, and it is not counted. */
export function isUncounted(object: StoredObject | undefined): object is BackgroundResponse {
  return object?.background !== undefined;
}
