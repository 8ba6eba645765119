import type { IncomingHttpHeaders } from 'node:http';
import type { BodyReservation } from '../body/body-memory.ts';
import type { Form } from '../body/form/form.ts';
import type { RequestBody } from '../body/request-body.ts';
import type { ApiRequest, RelayNote } from '../operation.ts';
import type { Principal } from '../principal.ts';
import type { ClientDisconnect } from './client-disconnect.ts';

/** What is known of a request before its body is read. */
export interface RequestHead {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly client: ClientDisconnect;
  readonly relayed: RelayNote;
}

/** What was read from a request. */
interface RequestContents {
  readonly query: Readonly<Record<string, unknown>>;
  readonly search: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: RequestBody & { readonly form?: Form };
  /** The room that the body takes. */
  readonly reservation: BodyReservation;
}

const noBytes = Buffer.alloc(0);
const noFields: ApiRequest['fields'] = new Map();

/** A request that has been read and found valid. */
export class CheckedRequest implements ApiRequest {
  readonly requestId: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, unknown>>;
  readonly search: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  rawBody: Buffer;
  readonly fields: ApiRequest['fields'];
  form: Form | undefined;
  readonly client: ClientDisconnect;
  readonly relayed: RelayNote;
  readonly #reservation: BodyReservation;

  constructor(
    { requestId, principal, params, client, relayed }: RequestHead,
    { query, search, headers, body: { value, raw, fields, form }, reservation }: RequestContents,
  ) {
    this.requestId = requestId;
    this.principal = principal;
    this.params = params;
    this.query = query;
    this.search = search;
    this.headers = headers;
    this.body = value;
    this.rawBody = raw;
    this.fields = fields ?? noFields;
    this.form = form;
    this.client = client;
    this.relayed = relayed;
    this.#reservation = reservation;
  }

  releaseBody(): void {
    this.rawBody = noBytes;
    this.form = undefined;
    this.#reservation.release();
  }
}
