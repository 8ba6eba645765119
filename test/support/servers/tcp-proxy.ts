import type { Direction } from '../../faults/cluster/link.ts';
import { createNetwork, type NetworkFault, type Route } from '../../faults/cluster/network.ts';

export type { Direction };

/** Of a driver's connections: those that its monitors use to say hello, those on which commands are sent, or both. */
export type LinkKind = 'monitors' | 'pool' | 'all';

/** A TCP proxy on loopback before one mongod that fails as networks do. What it is told holds for connections that are open, and for new ones. */
export interface TcpProxy {
  readonly port: number;
  /** Passes everything on, again. A connection that has lost bytes stays silent until an end closes it: its stream has a hole. */
  pass(): void;
  /** Closes every connection, and each new one at once. */
  cut(): void;
  /** Passes everything on so many milliseconds later. */
  delay(ms: number): void;
  /** Takes bytes and drops them, and closes nothing: what a firewall does that has forgotten a connection. */
  swallow(direction?: Direction | 'both', kind?: LinkKind): void;
  /** The same on the connections that are open now, for good; new ones pass. Returns how many there are. */
  swallowOpen(direction?: Direction | 'both', kind?: LinkKind): number;
  close(): Promise<void>;
}

function oneWay(direction: Direction | 'both'): Pick<NetworkFault, 'way'> {
  return direction === 'both' ? {} : { way: direction };
}

function ofKind(kind: LinkKind): (route: Route) => boolean {
  return (route) => kind === 'all' || route.kind === kind;
}

export async function startTcpProxy(target: { readonly port: number }): Promise<TcpProxy> {
  const network = createNetwork();
  const address = await network.addMember(0, target.port);
  let heal = () => {};

  function become(fault?: NetworkFault): void {
    const before = heal;
    heal = fault ? network.inject(fault) : () => {};
    before();
  }

  return {
    port: Number(address.split(':')[1]),
    pass: () => become(),
    cut: () => become({ action: 'cut' }),
    delay: (ms) => become({ action: 'delay', delay: ms }),
    swallow: (direction = 'both', kind = 'all') =>
      become({ action: 'swallow', on: ofKind(kind), ...oneWay(direction) }),
    swallowOpen(direction = 'both', kind = 'all') {
      const on = ofKind(kind);
      network.inject({ action: 'swallow', on, openOnly: true, ...oneWay(direction) });
      return network.count(on);
    },
    close: () => network.close(),
  };
}
