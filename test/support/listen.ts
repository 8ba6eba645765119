import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';

/** Leaves it to the clients to end a connection that is kept: a request of theirs never meets one that the server ends, however late it is read. */
export function keepConnections(server: Server): void {
  server.keepAliveTimeout = 0;
}

/** Has a server listen on loopback, on a free port unless told which; resolves to the port. */
export async function listenOn(server: NetServer, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Refuses connections: a port that a server has just left may soon be another server's, but nothing takes that of the discard protocol (RFC 863). */
export const nobody = 'http://127.0.0.1:9/v1';

/** A server on a loopback port, and what ends it. */
export interface Listening {
  readonly server: Server;
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

/** A real server on a free loopback port, prepared before it listens. */
export async function listen(
  listener: RequestListener,
  prepare = (_server: Server): unknown => undefined,
): Promise<Listening> {
  const server = createServer(listener);
  keepConnections(server);
  prepare(server);
  const port = await listenOn(server);
  return {
    server,
    port,
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
