import type { ServerResponse } from 'node:http';

/** A signal that aborts when the client leaves before its answer is complete. */
export function clientSignal(res: ServerResponse): AbortSignal {
  const controller = new AbortController();
  res.once('close', () => {
    if (!res.writableFinished) controller.abort(new Error('the client left'));
  });
  return controller.signal;
}
