import type { IncomingHttpHeaders } from 'node:http';
import type { BodyReservation } from './body/body-memory.ts';
import type { Form } from './body/form/form.ts';
import type { RequestBody } from './body/request-body.ts';
import type { Departure } from './client-disconnect.ts';
import type { Call, Principal } from './operation.ts';

/** What is known of a call before anything of it is read. */
export interface Caller {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly departure: Departure;
}

/** What was read of a request. */
interface ReadRequest {
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  readonly body: RequestBody & { readonly form?: Form };
  /** The room that the body takes. */
  readonly reservation: BodyReservation;
}

const noBytes = Buffer.alloc(0);
const noFields: Call['fields'] = new Map();

/** A call once its request has been read and found valid. */
export class CheckedCall implements Call {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  rawBody: Buffer;
  readonly fields: Call['fields'];
  form: Form | undefined;
  readonly departure: Departure;
  readonly #reservation: BodyReservation;

  constructor(
    { requestId, principal, params, departure }: Caller,
    { query, headers, body: { value, raw, fields, form }, reservation }: ReadRequest,
  ) {
    this.requestId = requestId;
    this.principal = principal;
    this.params = params;
    this.query = query;
    this.headers = headers;
    this.body = value;
    this.rawBody = raw;
    this.fields = fields ?? noFields;
    this.form = form;
    this.departure = departure;
    this.#reservation = reservation;
  }

  releaseBody(): void {
    this.rawBody = noBytes;
    this.form = undefined;
    this.#reservation.release();
  }
}
