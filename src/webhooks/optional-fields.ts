import { GatewayError } from '../errors.ts';
import { type Filters, storedFilters } from './filters.ts';
import { type Metadata, storedDescription, storedMetadata } from './metadata.ts';
import type { WebhookDocument } from './model.ts';
import { checkedHeaders, type StaticHeaders } from './static-headers.ts';

/** What a webhook may have beside its URL and its types. */
export interface OptionalFields {
  /** What it is for, in the owner's words. At most 500 characters. */
  readonly description?: string;
  /** The owner's own values. At most 16 pairs, keys of at most 64 characters, values of at most 512. */
  readonly metadata?: Metadata;
  /** Sends only the events that have one of the values at every path. At most 10 paths with 50 values each. @default every event */
  readonly filters?: Filters;
  /** Requests a second to this webhook, by all processes together: 1 to 1,000. Those above wait. @default no limit */
  readonly rateLimit?: number;
}

/** Headers that are sent with each delivery; sealed before they are stored, and never shown. */
export interface WithHeaders {
  /** At most 10, such as `{ authorization: 'Bearer …' }`. None that the gateway sends itself can be set. */
  readonly headers?: StaticHeaders;
}

/** The names of the headers that are sent with each delivery. */
export interface WithHeaderNames {
  /** In lower case. @default none */
  readonly headerNames?: readonly string[];
}

/** A change of optional fields: `null`, or an empty value, removes a field. */
export type OptionalFieldsPatch = { readonly [Name in keyof OptionalFields]?: OptionalFields[Name] | null } & {
  readonly headers?: StaticHeaders | null;
};

type Stored = Pick<WebhookDocument, 'description' | 'metadata' | 'filters' | 'rateLimit'>;
/** The given fields as they are stored; `null` if a field is removed. */
type StoredPatch = { -readonly [Name in keyof Stored]?: Stored[Name] | null };

export const optionalFieldNames = ['description', 'metadata', 'filters', 'rate_limit', 'headers'] as const;

const fastest = 1_000;

/** @throws GatewayError `invalid_type` or `invalid_value` */
function storedRateLimit(rateLimit: number | null): number | null {
  if (rateLimit === null || (Number.isInteger(rateLimit) && rateLimit >= 1 && rateLimit <= fastest)) return rateLimit;
  const message = `rate_limit: must be a whole number from 1 to ${fastest}, requests a second; null lifts the limit`;
  throw new GatewayError(typeof rateLimit === 'number' ? 'invalid_value' : 'invalid_type', message, {
    param: 'rate_limit',
  });
}

/**
 * Checks optional fields.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the field
 */
export function toStored({ description, metadata, filters, rateLimit }: OptionalFieldsPatch): StoredPatch {
  return {
    ...(description !== undefined && { description: storedDescription(description) }),
    ...(metadata !== undefined && { metadata: storedMetadata(metadata) }),
    ...(filters !== undefined && { filters: storedFilters(filters) }),
    ...(rateLimit !== undefined && { rateLimit: storedRateLimit(rateLimit) }),
  };
}

/**
 * Checks headers, and seals them.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the header
 */
export function toStoredHeaders(headers: StaticHeaders | null | undefined, seal: (json: string) => string) {
  if (headers === undefined) return {};
  const checked = checkedHeaders(headers);
  if (checked === null) return { headers: null, headerNames: null };
  return { headers: seal(JSON.stringify(checked)), headerNames: Object.keys(checked) };
}

/** Those that a stored webhook has. */
export function fromStored(webhook: Stored & Pick<WebhookDocument, 'headerNames'>): OptionalFields & WithHeaderNames {
  const { description, metadata, filters, rateLimit, headerNames } = webhook;
  return {
    ...(description !== undefined && { description }),
    ...(metadata !== undefined && { metadata: JSON.parse(metadata) }),
    ...(filters !== undefined && { filters: JSON.parse(filters) }),
    ...(rateLimit !== undefined && { rateLimit }),
    ...(headerNames !== undefined && { headerNames }),
  };
}
