import type { UsageRecord } from '../../options/options.ts';
import { failure } from '../failure.ts';
import { finalUsage } from '../metering/final-usage.ts';
import { textBytes } from '../metering/usage-meter.ts';
import { usageFrom } from '../metering/usage-reader.ts';
import { closedRecord } from '../metering/usage-record.ts';
import { type BackgroundUsage, runsOn } from '../ownership/background-usage.ts';

function parsed(bytes: Buffer): { readonly [name in 'status' | 'usage' | 'output']?: unknown } | null {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return null;
  }
}

/** What is read of a response's body, in place of what a meter has seen. */
function measured(usage: unknown, output: unknown) {
  const bytes = textBytes(output);
  return { reported: usageFrom(usage), bytes, textBytes: bytes, images: 0, events: 0, silence: 0, duration: undefined };
}

function recordOf(open: BackgroundUsage, used: ReturnType<typeof finalUsage>, ending: UsageRecord['ending']) {
  const { upstream, startedAt, firstByteMs } = open;
  const durationMs = Math.max(firstByteMs, Date.now() - startedAt.getTime());
  return closedRecord(open, used, { upstream, ending, durationMs, firstByteMs });
}

const responses = { answersImages: false, answersVectors: false };
const oneAnswer = { choices: 1, maxTokens: undefined };

/**
 * The usage record of a response, as its upstream answers it; `undefined` where it has not ended.
 * @throws GatewayError `upstream_invalid_response` for what is no response
 */
export function endedRecord(bytes: Buffer, open: BackgroundUsage): UsageRecord | undefined {
  const response = parsed(bytes);
  if (typeof response?.status !== 'string') throw failure('upstream_invalid_response');
  if (runsOn(response.status)) return undefined;
  const call = {
    estimatedInput: open.inputTokens,
    output: oneAnswer,
    ending: 'complete',
    endpoint: responses,
  } as const;
  return recordOf(open, finalUsage(measured(response.usage, response.output), call), 'complete');
}

/** The usage record of a response of whose end nobody says anything. */
export function unknownRecord(open: BackgroundUsage): UsageRecord {
  const call = {
    estimatedInput: open.inputTokens,
    output: oneAnswer,
    ending: 'orphaned',
    endpoint: responses,
  } as const;
  return recordOf(open, finalUsage(measured(undefined, undefined), call), 'orphaned');
}
