import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

const answer = JSON.stringify({
  object: 'list',
  data: [],
  choices: [{}],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** A provider, or a receiver of webhooks, that can hang and go away, and comes back on the same port. */
export async function startService() {
  let port = 0;
  let server: Server;
  let hangs = false;
  const service = {
    get port() {
      return port;
    },
    async start() {
      server = createServer((req, res) => {
        req.resume();
        if (!hangs) res.writeHead(200, { 'content-type': 'application/json' }).end(answer);
      });
      await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
      port = (server.address() as AddressInfo).port;
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
    /** Accepts connections and reads requests, and answers none. */
    hang() {
      hangs = true;
    },
    /** Answers again; those that wait get their connection closed. */
    answer() {
      hangs = false;
      server.closeAllConnections();
    },
  };
  await service.start();
  return service;
}
