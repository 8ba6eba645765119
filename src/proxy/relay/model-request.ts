import type { ApiRequest } from '../../http/operation.ts';
import type { StoredObject } from '../../stored/kinds.ts';
import type { Admission, RequestedCall } from '../admission.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { Endpoint } from '../endpoint.ts';
import type { ModelBody } from '../request/model-body.ts';
import type { Upstream } from '../routing/upstream.ts';

/** One request of a client, read and checked. */
export interface ModelRequest extends RequestedCall {
  readonly endpoint: Endpoint;
  readonly apiRequest: ApiRequest;
  readonly body: ModelBody;
  /** What its upstream is to keep of it. */
  readonly storing: Pick<StoredObject, 'kind' | 'metadata'> | undefined;
  /** Whether its upstream is to work on it after the call has been answered. */
  readonly inBackground: boolean;
}

/** Where an admitted call goes. */
export interface CallRoute {
  /** The model that the upstreams are asked for; `undefined` where the client names none. */
  readonly model: string | undefined;
  /** The upstreams, in the order in which they are tried. */
  readonly order: readonly [Upstream, ...Upstream[]];
  readonly deadline: CallDeadline;
  readonly admissions: readonly Admission[];
}
