import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { GatewayError } from '../../errors.ts';
import { hardenServer } from '../../index.ts';

/** A server that listens. */
export interface RunningServer {
  readonly port: number;
  /** Accepts no more connections and closes those that are open. */
  close(): Promise<void>;
}

function explain(error: NodeJS.ErrnoException, host: string, port: number, prefix: string): Error {
  const refuse = (name: string, text: string) => {
    const param = prefix + name;
    return new GatewayError('invalid_options', `${param}: ${text}`, { param });
  };
  if (error.code === 'EADDRINUSE') {
    return refuse(
      'PORT',
      `${port} on ${host} is in use; stop what listens there, or set ${prefix}PORT (0 takes a free one)`,
    );
  }
  if (error.code === 'EACCES')
    return refuse('PORT', `${port} needs more rights than this user has; set ${prefix}PORT above 1023`);
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
    return refuse('HOST', `${host} is not an address of this machine; 127.0.0.1 and 0.0.0.0 are`);
  }
  return error;
}

/**
 * Starts an HTTP server.
 * @param prefix what stands before PORT and HOST in the names of the variables. @default nothing
 * @param isExclusive whether no other process of WORKERS shares the port. @default false
 * @throws GatewayError `invalid_options` that names PORT or HOST when it cannot listen there
 */
export async function startServer(
  listener: RequestListener,
  host: string,
  port: number,
  prefix = '',
  isExclusive = false,
): Promise<RunningServer> {
  const server = hardenServer(createServer(listener));
  server.listen({ port, host, exclusive: isExclusive });
  await once(server, 'listening').catch((error) => {
    throw explain(error, host, port, prefix);
  });
  const closed = once(server, 'close');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Checks, before anything slow is started, whether {@link startServer} could listen there. */
export async function checkAddress(
  ...address: [host: string, port: number, prefix?: string, isExclusive?: boolean]
): Promise<void> {
  const server = await startServer(() => {}, ...address);
  await server.close();
}
