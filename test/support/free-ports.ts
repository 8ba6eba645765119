import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

async function listenAt(port: number): Promise<Server> {
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

const portOf = (server: Server) => (server.address() as { port: number }).port;

/** The first of so many free ports on loopback, one after the other. */
export async function freePorts(count: number): Promise<number> {
  for (;;) {
    const servers = [await listenAt(0)];
    const first = portOf(servers[0] as Server);
    try {
      while (servers.length < count) servers.push(await listenAt(first + servers.length));
      return first;
    } catch {
      // one of them is taken, so others are tried
    } finally {
      for (const server of servers) server.close();
    }
  }
}
