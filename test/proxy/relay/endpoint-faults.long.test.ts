import { expect } from 'chai';
import { startModelServer } from '../../support/model-server.ts';
import {
  chunks,
  hang,
  inTurn,
  json,
  raw,
  reset,
  type Script,
  ScriptedUpstream,
  stall,
} from '../../support/upstream.ts';
import { allDialects, type EndpointCall, endpointCalls, ownedByAll, send } from './endpoint-calls.ts';

/** What a client sees: a status or a connection that is cut, the code of the error, and how often the upstream was called. */
type Seen = string;

interface Fault {
  readonly name: string;
  script(call: EndpointCall): Script;
  /** `undefined` where it is no fault for such a call. */
  seen(call: EndpointCall): Seen | undefined;
}

const theirs = { error: { code: 'theirs' } };
const html = { 'content-type': 'text/html' };
const first = ({ answer, kind }: EndpointCall) => {
  const [part = Buffer.alloc(0)] = answer;
  return kind === 'stream' ? part : part.subarray(0, 20);
};
const typed = ({ answerType }: EndpointCall) => ({ 'content-type': answerType });
const whole = (call: EndpointCall): Script =>
  call.kind === 'stream' ? chunks(call.answer, typed(call)) : json(200, Buffer.concat(call.answer), typed(call));
const large = ({ answer }: EndpointCall) => Buffer.concat([...answer, Buffer.alloc(300_000, ' ')]);
const always = (seen: Seen) => () => seen;
const ofKind =
  (seen: Partial<Record<EndpointCall['kind'], Seen>>) =>
  ({ kind }: EndpointCall) =>
    seen[kind];
const held = (code: string) => ({ json: `${code} 1`, text: `${code} 1`, bytes: 'cut 1' });
const invalid = '502 upstream_invalid_response 1';

const faults: readonly Fault[] = [
  { name: 'hangs before its head', script: () => hang, seen: always('504 upstream_timeout 1') },
  { name: 'resets at once', script: () => reset(), seen: always('502 upstream_disconnected 3') },
  { name: 'sends an invalid response', script: () => raw('SSH-2.0\r\n'), seen: always(invalid) },
  { name: 'redirects', script: () => json(302, {}, { location: 'http://127.0.0.1:1/' }), seen: always(invalid) },
  { name: 'refuses the gateway', script: () => json(401, theirs), seen: always('502 upstream_auth_failed 1') },
  { name: 'answers 400', script: () => json(400, theirs), seen: always('400 theirs 1') },
  { name: 'answers 404 with a page', script: () => json(404, Buffer.from('<html>'), html), seen: always(invalid) },
  { name: 'answers 500 again and again', script: () => json(500, theirs), seen: always('500 theirs 3') },
  {
    name: 'answers 500 and then well',
    script: (call) => inTurn(json(500, theirs), whole(call)),
    seen: always('200 2'),
  },
  {
    name: 'has a rate limit for a minute',
    script: () => json(429, theirs, { 'retry-after': '60' }),
    seen: always('429 theirs 1'),
  },
  {
    name: 'sends a page',
    script: () => json(200, Buffer.from('<html>'), html),
    seen: ofKind({ json: invalid, text: '200 1', bytes: '200 1' }),
  },
  {
    name: 'sends nothing',
    script: (call) => json(200, Buffer.alloc(0), typed(call)),
    seen({ kind, method, answerType }) {
      // of a stream that is resumed behind its last event, nothing is left
      if (kind === 'stream' && method === 'GET') return undefined;
      return answerType.startsWith('text/plain') ? '200 1' : invalid;
    },
  },
  {
    name: 'resets inside its answer',
    script: (call) => reset(first(call), typed(call)),
    seen: ofKind({ ...held('502 upstream_disconnected'), stream: '200 upstream_disconnected 1' }),
  },
  {
    name: 'hangs inside its answer',
    script: (call) => stall(first(call), typed(call)),
    seen: ofKind({ ...held('504 upstream_timeout'), stream: '200 upstream_timeout 1' }),
  },
  {
    name: 'resets inside a large answer',
    script: (call) => reset(large(call), typed(call)),
    seen: ofKind({ json: 'cut 1', text: 'cut 1', bytes: 'cut 1' }),
  },
  {
    name: 'resets inside an event',
    script: (call) => reset(Buffer.concat([first(call), Buffer.from('data: {"a":')]), typed(call)),
    seen: ofKind({ stream: '200 upstream_disconnected 1' }),
  },
  {
    name: 'resets after its last event',
    script: (call) => reset(Buffer.concat(call.answer), typed(call)),
    seen: ofKind({ stream: '200 1' }),
  },
  {
    name: 'hangs after its last event',
    script: (call) => stall(Buffer.concat(call.answer), typed(call)),
    seen: ofKind({ stream: '200 1' }),
  },
];

/** The code of an error: in its body, or in the last event of a stream. */
function codeIn(text: string): string | undefined {
  const last = text.trimEnd().split('\n\n').at(-1) ?? '';
  const data = last.replace(/^[\s\S]*data: /, '');
  try {
    const { error, response } = JSON.parse(data);
    return (error ?? response?.error)?.code;
  } catch {
    return undefined;
  }
}

describe('an upstream with a fault', () => {
  let upstream: ScriptedUpstream;
  /** By the first part of its path: what the upstream does with it. */
  const scripts = new Map<string, Script>();
  const rows = new Map<string, Promise<Record<string, Seen>>>();
  /** A few calls at a time, because most of them wait for a limit of time. */
  let free = 16;
  const waiting: (() => void)[] = [];
  async function inTurn<T>(call: () => Promise<T>): Promise<T> {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await call();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    }
  }

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = (res, request) => scripts.get(request.path.split('/')[1] as string)?.(res, request);
    for (const call of endpointCalls) rows.set(call.name, tryAll(call));
  });
  after(() => upstream.close());

  /** One call to an upstream with one fault, on a server of its own: no breaker and no budget of retries is shared. */
  async function tryFault(call: EndpointCall, fault: Fault): Promise<Seen> {
    const key = encodeURIComponent(`${call.name} ${fault.name}`);
    scripts.set(key, fault.script(call));
    const server = await startModelServer({
      upstreams: [
        {
          name: 'faulty',
          baseUrl: upstream.baseUrl.replace('/v1', `/${key}/v1`),
          speaks: allDialects,
          includeUsage: false,
          ...(fault.name.startsWith('hangs') && { timeouts: { firstByte: 2_000, betweenChunks: 2_000 } }),
        },
      ],
      storedObjects: ownedByAll('faulty'),
    });
    try {
      const response = await send(server.baseUrl, call);
      const text = await response.text().catch(() => undefined);
      const calls = upstream.requests.filter(({ path }) => path.startsWith(`/${key}/`)).length;
      if (text === undefined) return `cut ${calls}`;
      const { status } = response;
      if (status === 200 && call.kind === 'stream' && !text.startsWith(String(first(call)))) return `lost ${text}`;
      return [status, codeIn(text), calls].filter((part) => part !== undefined).join(' ');
    } finally {
      await server.close();
    }
  }

  async function tryAll(call: EndpointCall): Promise<Record<string, Seen>> {
    const known = faults.filter((fault) => fault.seen(call) !== undefined);
    return Object.fromEntries(
      await Promise.all(known.map(async (fault) => [fault.name, await inTurn(() => tryFault(call, fault))])),
    );
  }

  for (const call of endpointCalls) {
    it(`gives the documented error to a client that asks for ${call.name}`, async () => {
      const known = faults.map((fault) => [fault.name, fault.seen(call)] as const).filter(([, seen]) => seen);
      expect(await rows.get(call.name)).to.deep.equal(Object.fromEntries(known));
    });
  }
});
