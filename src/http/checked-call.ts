import type { IncomingHttpHeaders } from 'node:http';
import type { Departure } from './departure.ts';
import type { Call, Principal } from './operation.ts';
import type { RequestBody } from './request-body.ts';

/** What is known of a call before anything of it is read. */
export interface Caller {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly departure: Departure;
}

/** A call once its request has been read and found valid. */
export class CheckedCall implements Call {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  readonly rawBody: Buffer;
  readonly longStrings: ReadonlyMap<number, number> | undefined;
  readonly departure: Departure;

  constructor(
    { requestId, principal, params, departure }: Caller,
    query: Readonly<Record<string, unknown>>,
    headers: IncomingHttpHeaders,
    { value, raw, longStrings }: RequestBody,
  ) {
    this.requestId = requestId;
    this.principal = principal;
    this.params = params;
    this.query = query;
    this.headers = headers;
    this.body = value;
    this.rawBody = raw;
    this.longStrings = longStrings;
    this.departure = departure;
  }

  get signal(): AbortSignal {
    return this.departure.signal;
  }
}
