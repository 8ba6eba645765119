import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkerAddress } from '../workers/workers.ts';

/** Credits that were added to an account; times are milliseconds since 1970 by the suite's own clock. */
export interface AddedCredits {
  /** The id of the ledger's entry. */
  readonly entryId: string;
  readonly userId: string;
  /** Micro-credits. */
  readonly amount: number;
  /** When it was first asked for. */
  readonly sentAt: number;
  /** When it was first confirmed. */
  readonly confirmedAt: number;
}

/** Milliseconds between two additions. */
const gap = 2_500;
const credits = 1;
/** A client gives up then, and tries again. Milliseconds. */
const maxWait = 70_000;

export interface FundingDeps {
  readonly addresses: () => readonly WorkerAddress[];
  /** With the scopes `admin` and `events:publish`. */
  readonly key: string;
  readonly userId: string;
}

interface Confirmation {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: two kinds of answers, of which only the event's id is read
  readonly body: any;
}

/** A billing service that adds credits by payments and top-ups in turn, and repeats each until it is confirmed. */
export function startFunding({ addresses, key, userId }: FundingDeps) {
  const added: AddedCredits[] = [];
  const notes: string[] = [];
  let isOpen = true;
  let isPaused = false;
  let adding = Promise.resolve();
  let serial = 0;
  let turn = 0;

  async function post(path: string, reference: string, body: object): Promise<Confirmation | undefined> {
    const ready = addresses();
    const worker = ready[turn % Math.max(1, ready.length)];
    turn += 1;
    if (!worker) return undefined;
    try {
      const response = await fetch(worker.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': reference },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(maxWait),
      });
      return { status: response.status, body: await response.json() };
    } catch {
      return undefined;
    }
  }

  async function postUntilConfirmed(path: string, reference: string, body: object): Promise<Confirmation> {
    for (;;) {
      const answer = await post(path, reference, body);
      if (answer && answer.status < 300) return answer;
      if (answer && answer.status < 500 && answer.status !== 429) {
        notes.push(`${reference} was refused with ${answer.status} ${answer.body?.error?.code}`);
        return answer;
      }
      await sleep(200);
    }
  }

  async function add(): Promise<void> {
    serial += 1;
    const isPayment = serial % 2 === 0;
    const reference = `${isPayment ? 'pay_' : ''}funding-${process.pid}-${Date.now()}-${serial}`;
    const [path, body] = isPayment
      ? ([
          '/v1/payments',
          {
            status: 'completed',
            payment_id: reference,
            user_id: userId,
            amount: 1,
            currency: 'usd',
            credits_added: credits,
          },
        ] as const)
      : (['/v1/credits/top_ups', { user_id: userId, credits }] as const);
    const sentAt = Date.now();
    const first = await postUntilConfirmed(path, reference, body);
    const entryId = isPayment ? `payment:${reference}` : `top_up:${JSON.stringify([userId, reference])}`;
    if (first.status < 300) {
      added.push({ entryId, userId, amount: credits * 1_000_000, sentAt, confirmedAt: Date.now() });
    }
    // a service that did not hear the answer would do this
    if (serial % 3 !== 0) return;
    const again = await postUntilConfirmed(path, reference, body);
    if (isPayment && again.body?.id !== first.body?.id) {
      notes.push(`${reference} was answered ${JSON.stringify(first.body)} and then ${JSON.stringify(again.body)}`);
    }
  }

  async function run(): Promise<void> {
    while (isOpen) {
      if (!isPaused) adding = add();
      await adding;
      await sleep(gap);
    }
  }

  const running = run();
  return {
    added,
    notes,
    /** Resolves when what was begun is confirmed. */
    async pause() {
      isPaused = true;
      await adding;
    },
    resume() {
      isPaused = false;
    },
    /** Resolves as `pause` does. */
    async stop() {
      isOpen = false;
      await running;
    },
  };
}
