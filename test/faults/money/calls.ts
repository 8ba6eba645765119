import type { WorkerAddress } from '../workers/workers.ts';
import { type ClientDeps, startClient } from './client.ts';
import { type Account, maxTokens } from './options.ts';
import { type Answer, callOverSocket } from './socket-call.ts';

/** A model call as its client saw it; times are milliseconds since 1970 by the suite's own clock. */
export interface SeenCall {
  /** Also its `x-request-id`. */
  readonly id: string;
  readonly account: Account;
  /** The process that it was sent to. */
  readonly pid: number;
  readonly sentAt: number;
  readonly endedAt: number;
  /** 0 where the connection broke before an answer had come. */
  readonly status: number;
  /** Of an error's body. */
  readonly code?: string;
  /** Of an error's body. */
  readonly message?: string;
  /** Whether the answer came to its end. */
  readonly isWhole: boolean;
}

/** Milliseconds between two calls. */
const gaps: Readonly<Record<Account, number>> = { rich: 300, poor: 400, limited: 700 };
/** A client gives up then. Milliseconds. */
const maxWait = 70_000;

export interface CallsDeps extends ClientDeps {
  readonly keys: Readonly<Record<Account, string>>;
}

async function readAnswer(response: Response, isStream: boolean): Promise<Answer> {
  const { status } = response;
  try {
    const text = await response.text();
    if (status === 200) return { status, isWhole: !isStream || text.trimEnd().endsWith('data: [DONE]') };
    const { code, message } = JSON.parse(text).error;
    return { status, code, message, isWhole: true };
  } catch {
    return { status, isWhole: false };
  }
}

/** Clients that make model calls whatever breaks, each call once, and write down what came of it. */
export function startCalls({ addresses, keys, random }: CallsDeps) {
  const seen: SeenCall[] = [];
  let serial = 0;

  async function call(account: Account, { pid, url }: WorkerAddress): Promise<void> {
    serial += 1;
    const sentAt = Date.now();
    // the handshake of a WebSocket counts as a request of its own, so those that may make few make none
    const isSocket = account === 'rich' && serial % 3 === 0;
    const id = `${isSocket ? 'socket' : 'call'}-${process.pid}-${serial}-${Date.now()}`;
    const answer = await (isSocket ? callOverSocket(url, keys[account], id, maxWait) : post(account, url, id));
    seen.push({ id, account, pid, sentAt, endedAt: Date.now(), ...answer });
  }

  function post(account: Account, url: string, id: string): Promise<Answer> {
    const stream = serial % 2 === 0;
    const messages = [{ role: 'user', content: 'How much is enough, and who would say so of what is theirs?' }];
    return fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${keys[account]}`,
        'content-type': 'application/json',
        'x-request-id': id,
      },
      body: JSON.stringify({ model: 'm', user: id, max_tokens: maxTokens, stream, messages }),
      signal: AbortSignal.timeout(maxWait),
    }).then(
      (response) => readAnswer(response, stream),
      (): Answer => ({ status: 0, isWhole: false }),
    );
  }

  return {
    seen,
    ...startClient(
      (['rich', 'poor', 'limited'] as const).map((account) => ({
        gap: gaps[account],
        send: (to) => call(account, to),
      })),
      { addresses, random },
    ),
  };
}
