import type { components } from '../../api.d.ts';
import { CommandFailure, PassingFailure } from '../terminal/command-failure.ts';
import { spanOf } from '../terminal/moments.ts';

type Schemas = components['schemas'];
type ErrorFields = Schemas['Error']['error'];

const program = 'express-model-gateway';
const giveAKey = 'with --api-key or EXPRESS_MODEL_GATEWAY_API_KEY';

/** What to do about an error, where its message alone does not say it. */
const advice: { readonly [Code in Schemas['ErrorCode']]?: string } = {
  missing_api_key: `Give a key ${giveAKey}.`,
  invalid_api_key: `Give a key of this gateway ${giveAKey}; it may have been revoked, or belong to another gateway.`,
  invalid_authorization: `Give a key as it was printed, emg_…, ${giveAKey}.`,
  insufficient_scope: `Give another key ${giveAKey}, or make one: ${program} keys create --help`,
  webhook_not_found: `Your webhooks: ${program} webhooks list`,
  webhook_inactive: `Resume it first: ${program} webhooks resume <webhook>`,
  delivery_not_found: `Your deliveries: ${program} deliveries list`,
  attempt_in_flight: 'An attempt is being made at this moment; try again when it has ended.',
  recovery_running: 'One is under way for this webhook; try again when it has ended.',
  event_not_found: `Your events: ${program} events list`,
  api_key_not_found: `Your keys: ${program} keys list`,
  idempotency_conflict: 'Use another key, or publish exactly what was published with this one.',
  shutting_down: 'It is shutting down. Try again in a moment.',
  database_unavailable: 'The operator should check that MongoDB is running.',
};

async function errorIn(response: Response): Promise<ErrorFields | undefined> {
  try {
    const { error } = JSON.parse(await response.text()) as Schemas['Error'];
    return typeof error?.message === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}

function noGateway(response: Response, baseUrl: string): CommandFailure {
  const location = response.headers.get('location');
  const what = location ? `with a redirect to ${location}, which is not followed` : 'but not as this gateway does';
  return new CommandFailure(
    `${baseUrl} answers ${response.status}, ${what}.\nCheck --base-url or EXPRESS_MODEL_GATEWAY_BASE_URL: what stands before /v1.`,
  );
}

/** When to try again, where the answer says so. RFC 9110, section 10.2.3, in seconds. */
function comeBack(headers: Headers): string[] {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) ? [`Try again in ${spanOf(seconds * 1_000)}.`] : [];
}

/** For the operator, who finds the request in the logs by it. */
function trace({ status, headers }: Response): string[] {
  const id = headers.get('x-request-id');
  return status >= 500 && id ? [`The operator finds it in the logs as ${id}.`] : [];
}

/** Explains an answer other than success to the user. */
export async function refusalOf(response: Response, baseUrl: string): Promise<CommandFailure> {
  const error = response.ok ? undefined : await errorIn(response);
  if (!error) return noGateway(response, baseUrl);
  const hint = advice[error.code];
  const lines = [`${error.code}: ${error.message}`, ...(hint ? [hint] : []), ...comeBack(response.headers)];
  const Failure = response.status === 429 || response.status >= 500 ? PassingFailure : CommandFailure;
  return new Failure([...lines, ...trace(response)].join('\n'));
}
