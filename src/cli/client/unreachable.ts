import { type CommandFailure, PassingFailure } from '../terminal/command-failure.ts';

const whereItIs = 'say where it is with --base-url or EXPRESS_MODEL_GATEWAY_BASE_URL';

function codeOf(error: unknown): string {
  const { code, cause, name } = error as { code?: string; cause?: unknown; name?: string };
  if (cause) return codeOf(cause);
  return code ?? name ?? 'unknown';
}

function explain(code: string, baseUrl: string): string {
  switch (code) {
    case 'ECONNREFUSED':
      return `Nothing answers at ${baseUrl}.\nStart a gateway there (npx express-model-gateway start), or ${whereItIs}.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `There is no host ${new URL(baseUrl).hostname}.\nCheck the name, or ${whereItIs}.`;
    case 'TimeoutError':
    case 'UND_ERR_HEADERS_TIMEOUT':
      return `${baseUrl} did not answer in time.\nTry again. If it happens again, look at the gateway's logs.`;
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return `${baseUrl} closed the connection without an answer.\nTry again; is it http where it should be https?`;
    default:
      return `${baseUrl} cannot be reached (${code}).\nCheck the network, or ${whereItIs}.`;
  }
}

/** Explains to the user why a request got no answer. */
export function unreachable(error: unknown, baseUrl: string): CommandFailure {
  const code = codeOf(error);
  if (/CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS/.test(code)) {
    const advice = 'Serve a valid certificate; a CA of your own is trusted through NODE_EXTRA_CA_CERTS=<file>.';
    return new PassingFailure(`The certificate of ${baseUrl} is not valid (${code}).\n${advice}`, 1, { cause: error });
  }
  return new PassingFailure(explain(code, baseUrl), 1, { cause: error });
}
