import { createServer, type Server } from 'node:net';
import { listenOn } from '../listen.ts';

/** The first of so many free ports on loopback, one after the other. */
export async function freePorts(count: number): Promise<number> {
  for (;;) {
    const servers = Array.from({ length: count }, () => createServer());
    try {
      const first = await listenOn(servers[0] as Server);
      for (const [i, server] of servers.slice(1).entries()) await listenOn(server, first + 1 + i);
      return first;
    } catch {
      // one of them is taken, so others are tried
    } finally {
      for (const server of servers) server.close();
    }
  }
}
