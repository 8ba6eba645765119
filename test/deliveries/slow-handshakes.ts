import { once } from 'node:events';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type Socket } from 'node:net';
import { listenOn } from '../support/listen.ts';

/** An HTTPS receiver that keeps TLS handshakes back while it is told to. */
export async function startSlowHandshakes(certificate: { cert: string; key: string }) {
  const arrivals: string[] = [];
  const kept = new Set<Socket>();
  const current = { keeps: true };
  const https = createHttpsServer(certificate, (req, res) => {
    arrivals.push(String(req.headers['webhook-id']));
    req.resume().on('end', () => res.end());
  });
  const server = createServer((socket) => {
    socket.on('error', () => {});
    if (current.keeps) kept.add(socket);
    else https.emit('connection', socket);
  });
  const port = await listenOn(server);
  return {
    arrivals,
    kept,
    url: `https://localhost:${port}/hook`,
    keepNoMore() {
      current.keeps = false;
    },
    /** Closes what is kept back. */
    forget() {
      for (const socket of kept) socket.destroy();
      kept.clear();
    },
    release() {
      for (const socket of kept) https.emit('connection', socket);
    },
    async stop() {
      https.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
