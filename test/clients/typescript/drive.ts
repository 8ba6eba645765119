/** Makes every call of a plan with the client that @hey-api/openapi-ts has generated, and prints what each has come to. */
import { json } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import type { Outcome, Plan } from '../generated-client.ts';
import type { PlannedCall } from '../plan.ts';

interface Result {
  readonly data?: unknown;
  readonly error?: unknown;
  readonly response?: Response;
}

type Generated = Record<string, (options: object) => Promise<Result>> & {
  readonly client: { setConfig(config: object): void };
};

const [, , folder = ''] = process.argv;
const from = async (file: string): Promise<Generated> => import(pathToFileURL(`${folder}/client/${file}`).href);
const operations = await from('index.ts');
const { client } = await from('client.gen.ts');

/** The body with its files as files. */
function bodyOf({ body, files }: PlannedCall): unknown {
  if (!files) return body;
  const toFile = (name: string, text: unknown) => new File([String(text)], `${name}.png`, { type: 'image/png' });
  const entries = Object.entries(body as object).map(([name, value]) => {
    if (!files.includes(name)) return [name, value];
    return [name, Array.isArray(value) ? value.map((item) => toFile(name, item)) : toFile(name, value)];
  });
  return Object.fromEntries(entries);
}

async function make(call: PlannedCall): Promise<Omit<Outcome, 'operationId'>> {
  const { operationId, path, query, header } = call;
  const { data, error, response } = await (operations[operationId] as Generated[string])({
    path,
    query,
    headers: header,
    ...(call.body !== undefined && { body: bodyOf(call) }),
  });
  if (!response?.ok) return { error: JSON.stringify(error) };
  return { parsed: data };
}

const { url, key, calls } = (await json(process.stdin)) as Plan;
client.setConfig({ baseUrl: url, auth: key });
for (const call of calls) {
  const outcome = await make(call).catch((error: unknown) => ({ error: String(error) }));
  console.log(JSON.stringify({ operationId: call.operationId, ...outcome }));
}
