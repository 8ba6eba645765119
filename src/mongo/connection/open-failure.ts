import { inspect } from 'node:util';
import { GatewayError, redact } from '../../errors.ts';

/** What is wrong with the option `mongo`, why in the driver's words, and what to do. */
interface Failure {
  readonly problem: string;
  readonly reason?: string;
  readonly remedy: string;
}

/** What is read of the errors of the driver, of mongoose and of Node. */
interface DriverError {
  readonly name?: string;
  readonly message?: string;
  readonly code?: unknown;
  readonly syscall?: string;
  readonly path?: string;
  /** Of an error of server selection: what the driver knew of the servers. */
  readonly reason?: {
    readonly type?: string;
    readonly setName?: string | null;
    readonly servers?: ReadonlyMap<string, { readonly type: string; readonly error?: DriverError | null }>;
  };
  readonly cause?: unknown;
}

/** The server's codes (MongoDB's error_codes.yml), and the one that Atlas has for both. */
const [unauthorized, authenticationFailed, atlasError] = [13, 18, 8_000] as const;

/** Shorter passwords are not searched for in a text: their letters are in every text. Characters. */
const shortestPassword = 4;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** What stands where a port should: a password, where a URI has no @ behind it. */
function impossiblePorts(uri: string): string[] {
  const [, hosts = ''] = /^[^:/]*:\/\/([^/?@]*)/.exec(uri) ?? [];
  const parts = hosts.split(',').filter((host) => !host.startsWith('['));
  return parts.flatMap((host) => host.split(':').slice(1)).filter((port) => !/^\d*$/.test(port));
}

/** What nobody may read of a URI: itself, and its password in every form. */
export function secretsOfUri(uri: string): readonly string[] {
  const [, credentials = ''] = /^[^:/]*:\/\/(.*)@/s.exec(uri) ?? [];
  const password = credentials.slice(credentials.indexOf(':') + 1);
  const forms = [password, decoded(password), encodeURIComponent(decoded(password)), ...impossiblePorts(uri)];
  return [uri, credentials, ...forms.filter(({ length }) => length >= shortestPassword)]
    .filter(Boolean)
    .sort((a, b) => b.length - a.length);
}

/** A text without the secrets, and without any other URI that could have a password. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  return redact(text.replace(/mongodb(\+srv)?:\/\/[^\s"']*/gi, '[redacted]'), secrets);
}

const encodeCredentials =
  'percent-encode the user name and the password in it: @ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25';

function unescapedCredentials(reason: string): Failure {
  return { problem: 'the URI is not valid', reason, remedy: encodeCredentials };
}

/** The driver takes what follows the first @ for a host, unless there is another before the first slash. */
const secondAt = /^[^@]*@(?:[^?]*@|.*[?&][^=&]*@)/;

/**
 * A URI that the driver would read as another than it is meant: parts of a password would be a host, and be looked up.
 * @throws GatewayError `invalid_options`
 */
export function requireEscapedCredentials(uri: string): void {
  if (secondAt.test(uri)) throw toError(unescapedCredentials('an @ is not percent-encoded'));
}

/** The text of a parser's error may quote the user name or a host. */
function parserReason(message: string): string {
  if (/^Unable to parse .* with URL$/.test(message)) return 'a host or a port in it is not valid';
  return message.replace(/(unescaped characters).*/, '$1');
}

function invalidUri({ message = '' }: DriverError): Failure {
  const reason = parserReason(message);
  if (/URI malformed|unescaped characters|^Invalid connection string$/.test(reason)) {
    return unescapedCredentials(reason);
  }
  const remedy = 'it has the form mongodb://<user>:<password>@<host>:<port>/<database>?replicaSet=<name>';
  return { problem: 'the URI is not valid', reason, remedy };
}

const tlsCodes = /CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_SSL|ERR_OSSL/;

/** The code of an error, or of what it wraps. */
function codeOf({ code, cause }: DriverError): string {
  return typeof code === 'string' || !cause ? String(code ?? '') : codeOf(cause as DriverError);
}

/** Why the driver found no server that takes writes. */
function noServer({ reason: topology, message = '' }: DriverError): Failure {
  const servers = [...(topology?.servers?.values() ?? [])];
  const has = (type: string) => servers.some((server) => server.type === type);
  const { setName } = topology ?? {};
  if (topology?.type === 'ReplicaSetNoPrimary' && servers.length === 0) {
    return {
      problem: `no server of the URI belongs to the replica set '${setName}'`,
      reason: message,
      remedy: `correct replicaSet in the URI, or start mongod with --replSet ${setName} and run rs.initiate() once`,
    };
  }
  if (has('RSGhost')) {
    const remedy = 'run rs.initiate() once on it, in mongosh';
    return { problem: 'this mongod belongs to no replica set yet', reason: message, remedy };
  }
  if (has('RSSecondary')) {
    const remedy = 'bring the other members back, and check that they reach each other';
    return { problem: 'the database cannot be reached: the replica set has no primary', reason: message, remedy };
  }
  const { error } = servers.find((server) => server.error) ?? {};
  const reason = error?.message ?? message;
  if (tlsCodes.test(codeOf(error ?? {})) || /\bTLS\b/.test(reason)) {
    const remedy = "check tls and tlsCAFile in the URI, and the server's certificate: its name and its last day";
    return { problem: 'no TLS connection to the database was made', reason, remedy };
  }
  const remedy =
    'check the hosts and ports in the URI, that mongod runs and listens there, the firewall, and tls=true if it wants TLS';
  return { problem: 'the database cannot be reached', reason, remedy };
}

function explain(error: DriverError): Failure {
  const { name = '', message = '', code, syscall = '', path } = error;
  if (code === authenticationFailed || code === atlasError) {
    const remedy =
      'check them, and authSource, the database that the user was created in: most often it is authSource=admin';
    return { problem: 'the database refuses the user name or the password in the URI', reason: message, remedy };
  }
  if (syscall.startsWith('query')) {
    const remedy = 'check the host name, and the name servers of this machine, or use a mongodb:// URI with the hosts';
    return { problem: 'there are no DNS records for the name in the mongodb+srv:// URI', reason: message, remedy };
  }
  if (path !== undefined) {
    const remedy = 'correct tlsCAFile, tlsCertificateKeyFile or tlsCRLFile in the URI, or let this user read the file';
    return { problem: 'a file that the URI names cannot be read', reason: message, remedy };
  }
  if (/ServerSelection/.test(name)) return noServer(error);
  if (tlsCodes.test(codeOf(error)) || /\bPEM\b/.test(message)) {
    const remedy = 'check that tlsCAFile and tlsCertificateKeyFile in the URI are files in PEM format';
    return { problem: 'the TLS files of the URI cannot be used', reason: message, remedy };
  }
  if (/^Mongo(Parse|API|Runtime|InvalidArgument|MissingDependency)|^(Type|URI|Range)Error$/.test(name))
    return invalidUri(error);
  const remedy = 'check the URI, the server and the network between them';
  return { problem: 'the database cannot be reached', reason: message, remedy };
}

/** The driver's error for `cause`: logs print it with its stack and fields, so a copy without secrets where it has one. */
function safeCause(error: unknown, secrets: readonly string[]): unknown {
  const text = inspect(error, { depth: 8 });
  if (withoutSecrets(text, secrets) === text) return error;
  const { name = 'Error', message = '', stack = '' } = error as Error;
  const copy = new Error(withoutSecrets(message, secrets));
  return Object.assign(copy, { name, stack: withoutSecrets(stack, secrets) });
}

function toError({ problem, reason, remedy }: Failure, cause?: unknown, secrets: readonly string[] = []): GatewayError {
  const because = reason ? ` (${withoutSecrets(reason, secrets).replace(/\.$/, '')})` : '';
  const details = { problem: `${problem}${because}`, remedy };
  return new GatewayError('invalid_options', `mongo: ${details.problem}; ${remedy}`, {
    param: 'mongo',
    details,
    ...(cause !== undefined && { cause: safeCause(cause, secrets) }),
  });
}

/**
 * Says why the database could not be opened, in the driver's words, and what to do.
 * @param uri nothing secret in it is said
 */
export function openFailure(error: unknown, uri = ''): GatewayError {
  return toError(explain(error as DriverError), error, secretsOfUri(uri));
}

/** The command's document, with the ids of its session, is of no use to a reader. */
function commandOnly(message: string): string {
  return message.replace(/(to execute command) \{ (\w+):.*/s, '$1 $2');
}

/** What the driver and mongoose throw on a client that somebody has closed. */
const closed = /^Mongo(NotConnected|TopologyClosed|ClientClosed)Error|setClient\(\)/;

/** Whether it is thrown because somebody has closed the client: no later try succeeds. */
export function isOfClosedClient(error: unknown): boolean {
  const { name = '', message = '' } = (error ?? {}) as Partial<Error>;
  return closed.test(`${name}: ${message}`);
}

/** The same error, or one that says what to do: its host has closed the connection meanwhile, or {@link namingMissingRights}. */
export function openingFailure(error: unknown): unknown {
  if (!isOfClosedClient(error)) return namingMissingRights(error);
  const problem = 'mongo: the connection was closed while the gateway was being made; close it after the gateway';
  return new GatewayError('invalid_options', problem, { param: 'mongo', cause: error });
}

/** The same error, or one that says what to do if the user of the connection has no right to what it did. */
export function namingMissingRights(error: unknown): unknown {
  const { code, message = '' } = (error ?? {}) as DriverError;
  if (code !== unauthorized && !(code === atlasError && /not (authorized|allowed)/.test(message))) return error;
  const reason = commandOnly(message);
  if (/requires authentication/.test(message)) {
    const remedy = 'put them into the URI: mongodb://<user>:<password>@<host>/<database>?authSource=admin';
    return toError({ problem: 'the database wants a user name and a password', reason, remedy }, error);
  }
  const [, name] = /not authorized on (\S+) to execute/.exec(message) ?? [];
  const database = name === undefined ? 'that database' : `the database '${name}'`;
  const problem = 'its user has too few rights';
  return toError({ problem, reason, remedy: `grant it the role readWrite on ${database}` }, error);
}
