import { refuse } from '../errors.ts';
import type { Fields } from '../proxy/answer-body.ts';
import { promptBytesPerToken, splice } from '../proxy/model-body.ts';
import { upstreamModelName } from '../proxy/upstream.ts';
import { noUsage } from '../proxy/usage-meter.ts';
import { madeObjects } from './answer-ids.ts';
import { isStoredId, madeByCheckpoints } from './kinds.ts';
import { storedObjectNotFound } from './references.ts';
import { readStored } from './upstream-reads.ts';
import {
  fileOf,
  readFields,
  readObject,
  requireModel,
  type UsedByWork,
  type WorkInput,
  type WorkRequests,
} from './work.ts';

/** The fields of a request for a job, as OpenAI has them. */
const jobFields: ReadonlySet<string> = new Set([
  'model',
  'training_file',
  'validation_file',
  'hyperparameters',
  'method',
  'integrations',
  'metadata',
  'seed',
  'suffix',
]);
/** The longest such request. Bytes: a grader may bring its source. */
const longestJobRequest = 1024 * 1024;
/** How often a provider goes through the file where the request does not say. */
const usualEpochs = 3;
/** More than any provider does. */
const mostEpochs = 1_000;

/**
 * Requires of a job what is required of a call: that its account may use its model, and those of its graders. Estimates what is trained by the size of
 * the file.
 * @throws GatewayError with the code of an upstream's failure; `model_not_allowed`, `model_not_found`, `file_not_found`
 */
export async function readTraining(input: WorkInput): Promise<WorkRequests> {
  const { apiRequest, deadline, upstream, retry } = input;
  const file = fileOf(input);
  const { rawBody, fields } = apiRequest;
  const request = readFields(rawBody, jobFields, longestJobRequest);
  const span = fields.get('model');
  const { model } = request;
  if (!span || typeof model !== 'string') refuse('missing_required_parameter', 'model', 'is required');
  const edits = [{ ...span, text: JSON.stringify(await upstreamName(model, input)) }];
  const method = fields.get('method');
  // what was read goes up, whatever another reader would have found in its place
  if (method) edits.push({ ...method, text: JSON.stringify(await withUpstreamNames(request.method, input)) });
  const read = { apiRequest, deadline, upstream, path: `/files/${encodeURIComponent(file.id)}` };
  const described = await readStored(read, retry, readObject);
  if (described === null) throw storedObjectNotFound({ kind: 'file', id: file.id, param: 'training_file' });
  const bytes = typeof described.bytes === 'number' && described.bytes > 0 ? described.bytes : 0;
  return {
    model,
    estimatedTokens: Math.ceil(bytes / promptBytesPerToken) * epochsOf(request),
    output: { choices: 1, maxTokens: 0 },
    data: splice(rawBody, edits),
  };
}

/** The upstream's name for a model that the account may have it train or ask. */
async function upstreamName(name: string, input: WorkInput): Promise<string> {
  await requireModel(name, input);
  return upstreamModelName(input.upstream, name);
}

/** A method with the upstream's names for the models that its graders ask. One after the other: each may cost the database a read. */
async function withUpstreamNames(value: unknown, input: WorkInput): Promise<unknown> {
  if (typeof value !== 'object' || value === null) return value;
  const members: [string, unknown][] = [];
  for (const [name, member] of Object.entries(value)) {
    const isModel = !Array.isArray(value) && name.toLowerCase() === 'model' && typeof member === 'string';
    members.push([name, await (isModel ? upstreamName(member, input) : withUpstreamNames(member, input))]);
  }
  return Array.isArray(value) ? members.map(([, member]) => member) : Object.fromEntries(members);
}

/** How often the file is gone through. */
function epochsOf({ hyperparameters, method }: Fields): number {
  const { type } = (method ?? {}) as Fields;
  const ofMethod = ((method ?? {}) as Record<string, Fields | undefined>)[String(type)]?.hyperparameters;
  const { n_epochs: epochs } = (ofMethod ?? hyperparameters ?? {}) as Fields;
  return typeof epochs === 'number' && epochs >= 1 ? Math.min(epochs, mostEpochs) : usualEpochs;
}

/** More tokens than any job trains: a larger count is an upstream's error. */
const mostTrained = 1_000_000_000_000;
/** The most pages of checkpoints that are read. OpenAI has ten on each. */
const mostPages = 100;

/**
 * What an ended job has trained by its own word; by estimate where one that has succeeded does not say it. Notes the models that its checkpoints are.
 */
export const usedByJob: UsedByWork = async (job, { work, storedObjects, retry, ...read }) => {
  const path = `/fine_tuning/jobs/${work.id}/checkpoints`;
  let search = '';
  for (let pages = 0; pages < mostPages; pages += 1) {
    // not every provider has checkpoints, and what a client is shown later is noted then
    const list = await readStored({ ...read, path, search }, retry, readObject).catch(() => null);
    const checkpoints: readonly (Fields | null)[] = Array.isArray(list?.data) ? list.data : [];
    const models = checkpoints.flatMap((checkpoint) => madeObjects(checkpoint ?? {}, madeByCheckpoints));
    await storedObjects.addMade(models, work);
    const last = checkpoints.at(-1)?.id;
    const next = `?after=${String(last)}`;
    // an upstream that does not go on would answer the same page again
    if (list?.has_more !== true || !isStoredId(last) || next === search) break;
    search = next;
  }
  const { trained_tokens: tokens, status } = job;
  const isCount = Number.isSafeInteger(tokens) && (tokens as number) >= 0 && (tokens as number) <= mostTrained;
  if (isCount) return { ...noUsage, inputTokens: tokens as number };
  const { inputTokens } = work.background;
  return status === 'succeeded' ? { ...noUsage, inputTokens, estimated: true } : noUsage;
};
