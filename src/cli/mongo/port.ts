import { connect, createServer } from 'node:net';

const loopback = '127.0.0.1';

function listenOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen(port, loopback, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : undefined));
    });
  });
}

/** `preferred` if it is free, else a port that the system chooses. */
export async function freePort(preferred?: number): Promise<number> {
  const port = (preferred && (await listenOnce(preferred))) || (await listenOnce(0));
  if (!port) throw new Error('no free port on 127.0.0.1');
  return port;
}

/** Whether something accepts connections there now. */
export function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, loopback);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
