import type { ServerResponse } from 'node:http';
import type { ModelCall, RequestedOutput, UsageRecord } from '../options/options.ts';

/** A call that was let through, for who let it through. One of the two is called, once. */
export interface Pass {
  /** What the caller is told on whatever it is answered. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The call was answered, and that has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered, or with an error. */
  dropped(): void;
}

/**
 * Asked before a call is routed. `undefined` lets it through and wants to hear no more.
 * @param estimatedTokens what the request is likely to use before its answer
 * @param output what it asks for
 * @throws GatewayError to refuse the call
 */
export type Gate = (
  call: ModelCall,
  estimatedTokens: number,
  output: RequestedOutput,
) => Pass | Promise<Pass> | undefined;

/** What the gates are asked about. */
export interface RequestedCall {
  readonly info: ModelCall;
  readonly estimatedTokens: number;
  readonly output: RequestedOutput;
}

/** Asks every gate in turn; the first that refuses takes back what those before it let through. */
export async function openGates(
  gates: readonly Gate[],
  { info, estimatedTokens, output }: RequestedCall,
  res: ServerResponse,
): Promise<readonly Pass[]> {
  const passes: Pass[] = [];
  try {
    for (const gate of gates) {
      const pass = await gate(info, estimatedTokens, output);
      if (!pass) continue;
      passes.push(pass);
      for (const name in pass.headers) res.setHeader(name, pass.headers[name] as string);
    }
    return passes;
  } catch (error) {
    for (const pass of passes) pass.dropped();
    throw error;
  }
}
