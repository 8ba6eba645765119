import type { SpecMediaType } from '../../src/openapi/spec.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { operations, resolved } from '../support/spec.ts';
import { json, type Script, ScriptedUpstream } from '../support/upstream.ts';

function matches(template: string, path: string): boolean {
  return new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
}

/** What the provider keeps has an id of its own each. */
const kept: ReadonlySet<string> = new Set(['/v1/responses', '/v1/conversations', '/v1/chat/completions']);
let made = 0;

function newlyNamed(value: unknown): unknown {
  made += 1;
  const object = value as { readonly id: string };
  return { ...object, id: `${object.id}_${made}` };
}

/** The provider answers each operation with its first example in openapi.yaml. */
const provider: Script = (res, request) => {
  const { pathname } = new URL(request.path, 'http://provider');
  const found = operations.filter(
    ({ method, path }) => method.toUpperCase() === request.method && matches(path, pathname),
  );
  const { operation } = found.find(({ path }) => path === pathname) ?? found[0] ?? {};
  const response = resolved(operation?.responses['200']) as { content?: Record<string, SpecMediaType> } | undefined;
  const content = response?.content ?? {};
  const type = content['application/json'] ? 'application/json' : (Object.keys(content)[0] ?? 'application/json');
  const [example] = Object.values(content[type]?.examples ?? {}).map(resolved);
  const isNew = request.method === 'POST' && kept.has(pathname) && example !== undefined;
  const value = isNew ? newlyNamed(example.value) : example?.value;
  // the bytes are JSON too, because the programs of the clients report what they were sent as JSON
  if (type !== 'application/json') res.writeHead(200, { 'content-type': type }).end(JSON.stringify(value));
  else return json(example ? 200 : 404, value ?? {})(res, request);
};

/** A gateway that has everything openapi.yaml describes, in front of a provider that knows its examples. */
export async function startForClients(): Promise<LiveGateway> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = provider;
  const live = await startGateway({
    upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl, apiKey: 'sk-up' }],
    credits: { prices: { '*': {} }, lowThreshold: 5 },
  });
  return {
    ...live,
    async close() {
      await live.close();
      await upstream.close();
    },
  };
}
