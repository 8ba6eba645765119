import type { IncomingMessage, ServerResponse } from 'node:http';
import { refuse } from '../errors.ts';
import { type BodyShape, bodyShape } from '../http/json/body-shape.ts';
import { outline } from '../http/json/scan.ts';
import { foldCase } from '../http/json/tokens.ts';
import type { ApiRequest, FieldRange, RelayOperation } from '../http/operation.ts';
import type { Spec } from '../openapi/spec.ts';
import { oneAnswer, requestAdmission, requireAllowedModel, settle } from '../proxy/admission.ts';
import { checkModelName, type Edit, shortValue, splice } from '../proxy/model-body.ts';
import { type Upstream, upstreamModelName } from '../proxy/upstream.ts';
import { upstreamPath } from '../stored/kinds.ts';
import { callReference, namedObjects, requireOwned } from '../stored/references.ts';
import { anything, object, realtimeSession, transcriptionFields } from './events.ts';
import { readQuery, type SessionQuery, withModel } from './query.ts';
import { modelWith, type RealtimeSecrets, routeSession, type ShownSecret } from './secrets.ts';
import type { SessionDependencies } from './session.ts';
import { type SentSession, type SessionCall, SessionExchange, type SessionRequest } from './session-exchange.ts';

const sessionCalls = {
  createRealtimeClientSecret: { path: '/realtime/client_secrets', makes: 'secret', sessionIn: 'session' },
  createRealtimeSession: { path: '/realtime/sessions', makes: 'secret' },
  createRealtimeTranscriptionSession: { path: '/realtime/transcription_sessions', makes: 'secret', transcribes: true },
  createRealtimeCall: { path: '/realtime/calls', makes: 'call', sessionIn: 'session' },
  createRealtimeTranslationClientSecret: {
    ...{ path: '/realtime/translations/client_secrets', makes: 'secret', sessionIn: 'session' },
    transcribes: false,
  },
  createRealtimeTranslationCall: {
    ...{ path: '/realtime/translations/calls', makes: 'call', sessionIn: 'session' },
    transcribes: false,
  },
  acceptRealtimeCall: { path: '/realtime/calls/{call_id}/accept' },
} as const satisfies Readonly<Record<string, SessionCall>>;

export type SessionOperations = Readonly<Record<keyof typeof sessionCalls, RelayOperation>>;

export interface SessionCallsDeps {
  readonly relaying: SessionDependencies;
  readonly secrets: RealtimeSecrets;
  readonly spec: Spec;
}

const session = { ...realtimeSession, type: anything };

/** A session in a request: in its body, in `session` of that, or in a part of a form. */
interface GivenSession {
  readonly json: Buffer;
  /** Where the JSON stands in the body. */
  readonly at: number;
  /** Where the body says how long the JSON is. */
  readonly lengthAt?: number | undefined;
  readonly fields: ReadonlyMap<string, FieldRange>;
  /** Where the session stands in the JSON: before the names of its fields. */
  readonly path: '' | 'session.';
}

/** A name of a model, and where it stands in the JSON. */
interface NamedModel {
  readonly name: string;
  readonly span: FieldRange;
}

/** What a request says of its session. */
interface ReadSession {
  readonly given: GivenSession | undefined;
  readonly query: SessionQuery;
  /** Where the session names its model. */
  readonly models: readonly NamedModel[];
  readonly transcribing: readonly NamedModel[];
  /** Whether the session only transcribes: then it has no other model. */
  readonly onlyTranscribes: boolean;
  /** As callers name it. */
  readonly model: string | undefined;
}

/** The operations that prepare realtime sessions over HTTP. What is said in these does not pass the gateway, but for the sockets that it takes. */
export function createSessionOperations(deps: SessionCallsDeps): SessionOperations {
  const { relaying, secrets } = deps;
  const { storedObjects, upstreams } = relaying;
  const shape = bodyShape(deps.spec, object({ ...session, session: object(session) }));
  const operations = Object.entries(sessionCalls).map(([operationId, call]): [string, RelayOperation] => [
    operationId,
    { relay: (apiRequest, res) => relaySession(call, apiRequest, res) },
  ]);
  const table = Object.fromEntries(operations) as SessionOperations;
  const authenticate = async (req: IncomingMessage, byKey: () => ReturnType<RealtimeSecrets['authenticate']>) => {
    const secret = await secrets.find(req);
    return secret ? secrets.authenticate(secret) : byKey();
  };
  const withSecrets = (operation: RelayOperation) => ({ ...operation, authenticate });
  return {
    ...table,
    createRealtimeCall: withSecrets(table.createRealtimeCall),
    createRealtimeTranslationCall: withSecrets(table.createRealtimeTranslationCall),
  };

  async function relaySession(call: SessionCall, apiRequest: ApiRequest, res: ServerResponse): Promise<void> {
    const { requestId, principal, params } = apiRequest;
    // no account would own what the upstream makes
    storedObjects.require();
    const secret = secrets.of(principal);
    const read = await readSession(call, apiRequest, secret, shape);
    const { given, model } = read;
    const info = { requestId, principal, endpoint: call.path, model, stream: false };
    const requested = { info, estimatedTokens: 0, output: oneAnswer };
    const json = { rawBody: given?.json ?? Buffer.alloc(0), fields: given?.fields ?? new Map() };
    const about = params.call_id === undefined ? [] : [callReference(params.call_id)];
    const references = [...about, ...(await namedObjects(json))];
    const { keepers } = await requireOwned(storedObjects, { ...json, principal }, { references }, upstreams);
    const path = upstreamPath(call, params);
    const admissions = await requestAdmission(relaying.admissionChecks, requested, res);
    let request: SessionRequest;
    try {
      const calledModel = (await relaying.hooks?.onRequest(info))?.model ?? model;
      const { models } = storedObjects;
      const order = await routeSession(secret, keepers, calledModel, principal.userId, models);
      for (const { name } of read.transcribing) models.requireOpen(name, principal.userId, order);
      const sent = (upstream: Upstream) => sentTo(upstream, apiRequest, read, calledModel);
      const transcriptionModel = read.transcribing[0]?.name;
      request = { ...requested, call, apiRequest, transcriptionModel, secret, path, order, sent };
    } catch (error) {
      settle(relaying, { admissions }, undefined);
      throw error;
    }
    await new SessionExchange(deps, request, admissions).run(res);
  }
}

/** @throws GatewayError `invalid_value`, `model_not_allowed` */
async function readSession(
  call: SessionCall,
  apiRequest: ApiRequest,
  secret: ShownSecret | undefined,
  shape: BodyShape,
): Promise<ReadSession> {
  const { principal, relayed } = apiRequest;
  const given = await givenSession(apiRequest, shape, call);
  const query = readQuery(apiRequest.search);
  const models = namedModels(given, ['model']);
  const transcribing = namedModels(given, transcriptionFields);
  const inQuery = query.model === undefined ? [] : [query.model];
  const [named, another] = new Set([...models.map(({ name }) => name), ...inQuery]);
  if (another !== undefined) {
    refuse('invalid_value', 'model', `must be one: the request names '${named}' and '${another}'`);
  }
  // only an offer alone has its model in the query: elsewhere, an upstream would take a model of its own
  if (inQuery.length > 0 && models.length === 0 && (given || call.makes !== 'call')) {
    refuse('invalid_value', 'model', 'must stand in the session, in place of the query');
  }
  const type = given && shortValue(given.json, given.fields.get(`${given.path}type`));
  const onlyTranscribes = named === undefined && (call.transcribes ?? type === 'transcription');
  const model = modelWith(secret, named) ?? (onlyTranscribes ? transcribing[0]?.name : undefined);
  requireAllowedModel(principal, model);
  const [transcribes, otherwise] = new Set(transcribing.map(({ name }) => name));
  if (otherwise !== undefined) {
    refuse('invalid_value', 'model', `must be one: '${transcribes}' and '${otherwise}' are to transcribe`);
  }
  if (transcribes !== undefined) requireAllowedModel(principal, transcribes);
  if (model !== undefined) relayed.model = model;
  return { given, query, models, transcribing, onlyTranscribes, model };
}

/** A request with one upstream's names for its models, and all else as it came. */
function sentTo(
  upstream: Upstream,
  { rawBody }: ApiRequest,
  { given, query, models, transcribing, onlyTranscribes }: ReadSession,
  calledModel: string | undefined,
): SentSession {
  const nameOf = (of: string) => upstreamModelName(upstream, of);
  const model = calledModel === undefined ? undefined : nameOf(calledModel);
  const transcribes = onlyTranscribes ? transcribing[0] : undefined;
  const edits = [
    ...models.map(({ span }) => ({ ...span, text: JSON.stringify(model) })),
    ...transcribing.map((named) => ({
      ...named.span,
      text: JSON.stringify(named === transcribes ? model : nameOf(named.name)),
    })),
  ];
  const search = query.model === undefined ? query.search : withModel(query.search, model);
  return { data: splice(rawBody, placed(rawBody, given, edits)), search, model };
}

/** @throws GatewayError `invalid_value` for a model outside the session; `duplicate_parameter` and so on, as for any JSON */
async function givenSession(
  { rawBody, form, body }: ApiRequest,
  shape: BodyShape,
  { sessionIn }: SessionCall,
): Promise<GivenSession | undefined> {
  if (form) {
    const parts = form.parts.filter(({ name }) => name === 'session');
    if (parts.length > 1) refuse('duplicate_parameter', 'session', 'appears twice in the form');
    const outside = form.parts.find(({ name }) => foldCase(name) === 'model');
    if (outside) refuse('invalid_value', outside.name, 'must stand in the session');
    const [part] = parts;
    if (!part) return undefined;
    const json = form.bytes.subarray(part.start, part.end);
    return { json, at: part.start, lengthAt: part.lengthAt, fields: (await outline(json, shape)).fields, path: '' };
  }
  if (body === undefined) return undefined;
  return {
    ...{ json: rawBody, at: 0, fields: (await outline(rawBody, shape)).fields },
    path: sessionIn === undefined ? '' : `${sessionIn}.`,
  };
}

/**
 * The models that a session names in some of its fields. One that stands where the upstream reads no session is refused: it would take another.
 * @throws GatewayError `invalid_value` for that, and for what is no name
 */
function namedModels(given: GivenSession | undefined, names: readonly string[]): NamedModel[] {
  if (!given) return [];
  const { json, fields } = given;
  return names.flatMap((field) =>
    ['', 'session.'].flatMap((at) => {
      const path = at + field;
      const span = fields.get(path);
      const name = shortValue(json, span);
      if (!span || name === null) return [];
      if (at !== given.path) return refuse('invalid_value', path, `must stand in ${given.path + field}`);
      if (typeof name !== 'string' || name === '') return refuse('invalid_value', path, 'must be the name of a model');
      checkModelName(name);
      return [{ name, span }];
    }),
  );
}

/** Edits of a session's JSON as those of the body that has it. */
function placed(body: Buffer, given: GivenSession | undefined, edits: readonly Edit[]): Edit[] {
  if (!given || edits.length === 0) return [];
  const { json, at, lengthAt } = given;
  const moved = edits.map(({ start, end, text }) => ({ start: at + start, end: at + end, text }));
  if (lengthAt === undefined) return moved;
  const grown = edits.reduce((sum, { start, end, text }) => sum + Buffer.byteLength(text) - (end - start), 0);
  const [digits = ''] = /^\d+/.exec(body.toString('latin1', lengthAt, at)) ?? [];
  return [{ start: lengthAt, end: lengthAt + digits.length, text: String(json.length + grown) }, ...moved];
}
