import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { GatewayHealth, ModelGateway } from '../../index.ts';

function answer(res: ServerResponse, status: number, type: string, body: string): void {
  res.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
}

function answerJson(res: ServerResponse, status: number, value: unknown): void {
  answer(res, status, 'application/json', `${JSON.stringify(value)}\n`);
}

/** What a path answers. Nothing here rejects for a reason that a caller could give. */
type Answers = Readonly<Record<string, (res: ServerResponse, query: URLSearchParams) => unknown>>;

function probes({ health }: Pick<ModelGateway, 'health'>, shown: (state: GatewayHealth) => object): Answers {
  return {
    // a probe that gets no answer here restarts the process, so nothing else must make it fail
    '/healthz': (res) => answerJson(res, 200, { status: 'ok' }),
    // `?exclude=database&exclude=clock`, as Kubernetes' own API server has it
    async '/readyz'(res, query) {
      const state = await health();
      const excluded = query.getAll('exclude');
      const checks = Object.entries(state.checks);
      const unknown = excluded.find((name) => !Object.hasOwn(state.checks, name));
      if (unknown !== undefined) {
        const names = checks.map(([name]) => name).join(', ');
        answerJson(res, 400, { error: `exclude: there is no check ${unknown}; there are ${names}` });
        return;
      }
      const ready = checks.every(([name, result]) => result !== 'failed' || excluded.includes(name));
      answerJson(res, ready ? 200 : 503, shown({ ...state, ready }));
    },
  };
}

/** Answers GET and HEAD on these paths, and passes on every other request. */
function withAnswers(answers: Answers, next: RequestListener): RequestListener {
  return (req: IncomingMessage, res: ServerResponse) => {
    const [path = '', query = ''] = (req.url ?? '').split('?');
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (!isRead || !Object.hasOwn(answers, path)) return next(req, res);
    Promise.resolve(answers[path]?.(res, new URLSearchParams(query))).catch(() => {
      if (!res.headersSent) answerJson(res, 500, { status: 'failed' });
    });
  };
}

/**
 * Adds `/healthz`, whether the process runs, and `/readyz`, whether it should get requests (503 if not, with the checks). Customers may
 * reach it: no index, key or upstream is named.
 */
export function withProbes(gateway: Pick<ModelGateway, 'health'>, next: RequestListener): RequestListener {
  return withAnswers(
    probes(gateway, ({ ready, checks }) => ({ ready, checks })),
    next,
  );
}

/** Answers `/metrics` for Prometheus, `/healthz` and `/readyz`, and 404 to all else: for a port that customers cannot reach. */
export function createOperationsListener(gateway: Pick<ModelGateway, 'health' | 'metrics'>): RequestListener {
  const registry = gateway.metrics();
  const answers: Answers = {
    ...probes(gateway, (state) => state),
    '/metrics': async (res) => answer(res, 200, registry.contentType, await registry.metrics()),
  };
  return withAnswers(answers, (_req, res) =>
    answer(res, 404, 'text/plain; charset=utf-8', 'Here are /metrics, /healthz and /readyz\n'),
  );
}
