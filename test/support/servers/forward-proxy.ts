import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { listenOn } from '../listen.ts';
import type { Certificate } from './certificates.ts';

/** What a proxy does with a CONNECT: makes the tunnel, answers a status, or never answers. */
type Behaviour = 'tunnel' | 'hang' | number;

export interface ForwardProxyOptions {
  /** What it wants as `user:password`. @default nothing */
  readonly credentials?: string;
  /** For a proxy that is spoken to over TLS. */
  readonly certificate?: Certificate;
}

/** A forward proxy on loopback that makes tunnels (CONNECT), and serves nothing else. It alone knows the names of its hosts. */
export class ForwardProxy {
  /** The hosts that were asked for, in this order: `api.invalid:443`. */
  readonly tunnels: string[] = [];
  /** The ports of hosts on loopback by their names. An address leads where it says. */
  readonly hosts: Record<string, number> = {};
  behaviour: Behaviour = 'tunnel';
  readonly #sockets = new Set<Socket>();
  readonly #options: ForwardProxyOptions;
  readonly #server: ReturnType<typeof createServer>;

  constructor(options: ForwardProxyOptions) {
    this.#options = options;
    const { certificate } = options;
    this.#server = certificate ? createTlsServer(certificate) : createServer();
    this.#server.on('request', (_req, res) => res.writeHead(405).end());
    this.#server.on('connect', (req, socket: Socket) => this.#connect(req, socket));
  }

  static async start(options: ForwardProxyOptions = {}): Promise<ForwardProxy> {
    const proxy = new ForwardProxy(options);
    await listenOn(proxy.#server);
    return proxy;
  }

  /** @param credentials `user:password`, as they stand in a URL. @default those that it wants */
  url(credentials = this.#options.credentials): string {
    const { port } = this.#server.address() as AddressInfo;
    const host = this.#options.certificate ? `localhost:${port}` : `127.0.0.1:${port}`;
    return `${this.#options.certificate ? 'https' : 'http'}://${credentials ? `${credentials}@` : ''}${host}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #connect({ url = '', headers }: IncomingMessage, client: Socket): void {
    this.#keep(client);
    this.tunnels.push(url);
    if (this.behaviour === 'hang') return;
    const { credentials } = this.#options;
    const wanted = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
    const status = headers['proxy-authorization'] === wanted ? this.behaviour : 407;
    if (status !== 'tunnel') {
      client.end(`HTTP/1.1 ${status} Refused\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    const { hostname, port } = new URL(`http://${url}`);
    const target = connect(this.hosts[hostname] ?? Number(port || 80), '127.0.0.1');
    this.#keep(target);
    target.on('connect', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      client.pipe(target).pipe(client);
    });
    target.on('close', () => client.destroy());
    client.on('close', () => target.destroy());
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
  }
}
