import { pathToFileURL } from 'node:url';
import type { Plan } from '../generated-client.ts';
import type { PlannedCall } from '../plan.ts';

/** Makes a call with a generated client; resolves to what the client has made of the answer. */
type Make = (call: PlannedCall) => Promise<unknown>;
type Functions = Readonly<Record<string, (...values: unknown[]) => Promise<{ readonly data?: unknown }>>>;

const load = async <T>(folder: string, file: string): Promise<T> => import(pathToFileURL(`${folder}/${file}`).href);

/** What is left of a name in a language that writes its names in its own case. */
const bare = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
const byBareName = (values: object) => new Map(Object.entries(values).map(([name, value]) => [bare(name), value]));

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

/** By Hey API: a function for each operation, with all that it sends in one object. */
async function heyApi(folder: string, { url, key }: Plan): Promise<Make> {
  type Result = { readonly data?: unknown; readonly error?: unknown; readonly response?: Response };
  const operations = await load<Record<string, (options: object) => Promise<Result>>>(folder, 'client/index.ts');
  const { client } = await load<{ client: { setConfig(config: object): void } }>(folder, 'client/client.gen.ts');
  client.setConfig({ baseUrl: url, auth: key });
  return async (call) => {
    const { operationId, path, query, header: headers } = call;
    const sent = { path, query, headers, ...(call.body !== undefined && { body: bodyOf(call) }) };
    const result = await operations[operationId]?.(sent);
    if (!result?.response?.ok) throw new Error(JSON.stringify(result?.error));
    return result.data;
  };
}

/** By openapi-generator: a class for each tag, whose methods take one object with the fields of a form beside the parameters. */
async function typescriptFetch(folder: string, { url, key }: Plan): Promise<Make> {
  type Api = Readonly<Record<string, (parameters: object) => Promise<unknown>>>;
  type Client = Record<string, new (configuration: object) => Api>;
  const { Configuration, ...classes } = await load<Client & { Configuration: new (parameters: object) => object }>(
    folder,
    'client/index.ts',
  );
  const configuration = new Configuration({ basePath: url, accessToken: key });
  const names = Object.keys(classes).filter((name) => /^[A-Z].*Api$/.test(name));
  const instances = names.map((name) => new (classes[name] as Client[string])(configuration));
  return async (call) => {
    const { operationId, path, query, header, files } = call;
    const api = instances.find((instance) => operationId in instance);
    const source = String(api?.[`${operationId}RequestOpts`]);
    const named = byBareName({ ...path, ...query, ...header, ...(files && (bodyOf(call) as object)) });
    const [, body] = /body:\s*requestParameters\[["'](\w+)["']\]/.exec(source) ?? [];
    const parametersRead = source.matchAll(/requestParameters\[["'](\w+)["']\]/g);
    const parameters = [...parametersRead].map(([, name = '']) => [
      name,
      name === body ? call.body : named.get(bare(name)),
    ]);
    return api?.[operationId]?.(Object.fromEntries(parameters)).catch(async (error) => {
      throw error.response ? new Error(await error.response.text()) : error;
    });
  };
}

/**
 * On axios: a function for each operation, with an argument for each part of a request.
 * @param toResult what the function resolves to, as the body of the answer
 */
async function axiosFunctions(
  folder: string,
  { url, key }: Plan,
  toResult: (result: object) => unknown,
): Promise<Make> {
  const operations = await load<Functions>(folder, 'client/index.ts');
  return async (call) => {
    const { operationId, path, query, header } = call;
    const operation = operations[operationId];
    const config = { baseURL: url, headers: { authorization: `Bearer ${key}`, ...header } };
    const given = new Map<string, unknown>([
      ...byBareName(path),
      ...Object.entries({ params: query, headers: header, options: config, config }),
    ]);
    const [, list, parameter = ''] = /^[^(=]*\(([^)]*)\)|^(\w+)\s*=>/.exec(String(operation)) ?? [];
    const names = (list ?? parameter).split(',').map((one) => one.trim().split(/\W/)[0] ?? '');
    const values = names.map((name) => (given.has(bare(name)) ? given.get(bare(name)) : bodyOf(call)));
    return operation?.(...values).then(toResult, (error) => {
      throw error.response ? new Error(JSON.stringify(error.response.data)) : error;
    });
  };
}

export const adapters = {
  'hey-api': heyApi,
  'typescript-fetch': typescriptFetch,
  orval: (folder: string, plan: Plan) => axiosFunctions(folder, plan, ({ data }: { data?: unknown }) => data),
  kubb: (folder: string, plan: Plan) => axiosFunctions(folder, plan, (data) => data),
};
