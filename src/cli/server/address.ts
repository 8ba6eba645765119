import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { GatewayError } from '../../errors.ts';

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
  const isUsed = `${port} on ${host} is in use; stop what listens there, or set ${prefix}PORT (0 takes a free one)`;
  const isElsewhere = `${host} is not an address of this machine; 127.0.0.1 and 0.0.0.0 are`;
  const problems: Readonly<Record<string, readonly [name: string, problem: string]>> = {
    EADDRINUSE: ['PORT', isUsed],
    EACCES: ['PORT', `${port} needs more rights than this user has; set ${prefix}PORT above 1023`],
    EADDRNOTAVAIL: ['HOST', isElsewhere],
    ENOTFOUND: ['HOST', isElsewhere],
  };
  const found = problems[error.code ?? ''];
  if (!found) return error;
  const param = prefix + found[0];
  return new GatewayError('invalid_options', `${param}: ${found[1]}`, { param });
}

/**
 * Lets a server listen.
 * @throws GatewayError `invalid_options` that names PORT or HOST when it cannot listen there
 */
export async function listenAt(server: Server, address: Address): Promise<void> {
  const { host, port, isExclusive: exclusive = false } = address;
  server.listen({ port, host, exclusive });
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
