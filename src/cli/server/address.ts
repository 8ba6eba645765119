import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { GatewayError } from '../../errors.ts';

/** Where a server listens. */
export interface Address {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** What stands before PORT and HOST in the names of the variables. @default nothing */
  readonly prefix?: string;
  /** Whether no other process of WORKERS shares the port. @default false */
  readonly isExclusive?: boolean;
}

function explain(error: NodeJS.ErrnoException, { host, port, prefix = '' }: Address): Error {
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
 * Lets a server listen.
 * @throws GatewayError `invalid_options` that names PORT or HOST when it cannot listen there
 */
export async function listenAt(server: Server, address: Address): Promise<void> {
  const { host, port, isExclusive = false } = address;
  server.listen({ port, host, exclusive: isExclusive });
  await once(server, 'listening').catch((error) => {
    throw explain(error, address);
  });
}

/**
 * Checks, before anything slow is started, whether a server could listen there. A process of WORKERS must not check a port that it
 * shares: for that moment it would take connections of customers, and answer none.
 */
export async function checkAddress(address: Address): Promise<void> {
  const server = createServer((socket) => socket.destroy());
  await listenAt(server, address);
  const closed = once(server, 'close');
  server.close();
  await closed;
}
