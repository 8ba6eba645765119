import { connect, createServer, type Server, type Socket } from 'node:net';
import { listenOn } from '../../support/listen.ts';
import { type Direction, Link, type Treatment } from './link.ts';
import { type Command, commandOf, createMessageReader, isWhole, openerOf } from './wire.ts';

/** Whom a connection joins. */
export interface Route {
  /** The member that opened it; absent for a client. */
  readonly from?: number;
  readonly to: number;
  /** What a driver uses it for: its monitors say hello again and again. Absent until that shows. */
  readonly kind?: 'monitors' | 'pool';
}

/** What goes wrong, and with which connections. */
export interface NetworkFault {
  /**
   * `cut` closes connections, and each new one; `swallow` drops what they carry; `hold` keeps it until it is healed; `delay`
   * makes it late.
   */
  readonly action: 'cut' | 'swallow' | 'hold' | 'delay';
  /** Which connections it meets. @default all */
  readonly on?: (route: Route) => boolean;
  /** Whether those are spared that are opened later. @default false */
  readonly openOnly?: boolean;
  /** The one direction that it meets. @default both */
  readonly way?: Direction;
  /** Milliseconds; of `delay` alone. */
  readonly delay?: number;
}

/** Answers that are lost, each with its connection, after the command has been carried out. */
interface LostAnswers {
  /** How many are still to be lost. */
  left(): number;
  stop(): void;
}

interface OpenLink {
  readonly link: Link;
  readonly route: Route & { kind?: Route['kind'] };
  /** Whether nothing happens to it. */
  readonly isSpared: boolean;
}

/** Everything that goes between clients and members of a replica set, or between two members, and what can be done to it. */
export interface Network {
  /** Puts itself before a member. @returns the address by which all others must know it, `127.0.0.1:<port>` */
  addMember(member: number, port: number): Promise<string>;
  /** Makes something go wrong, beside what does already. @returns what ends it */
  inject(fault: NetworkFault): () => void;
  /** Loses the next answers to clients' commands of this kind. */
  loseAnswers(isMeant: (command: Command) => boolean, times: number): LostAnswers;
  /** How many such connections are open. */
  count(on: (route: Route) => boolean): number;
  close(): Promise<void>;
}

/** @param sparedApp the `appName` of clients that nothing happens to */
export function createNetwork(sparedApp?: string): Network {
  const servers: Server[] = [];
  const members = new Map<number, number>();
  const open = new Set<OpenLink>();
  const faults = new Set<(link: OpenLink) => NetworkFault | undefined>();
  const losses = new Set<(command: Command) => boolean>();

  function faultsOf(one: OpenLink): NetworkFault[] {
    return one.isSpared ? [] : [...faults].map((find) => find(one)).filter((fault) => fault !== undefined);
  }

  function treatmentOf(one: OpenLink, direction: Direction): Treatment {
    const mine = faultsOf(one).filter(({ way = direction }) => way === direction);
    return {
      swallows: mine.some(({ action }) => action === 'swallow'),
      holds: mine.some(({ action }) => action === 'hold'),
      delay: Math.max(0, ...mine.map(({ delay = 0 }) => delay)),
    };
  }

  function update(one: OpenLink): void {
    if (faultsOf(one).some(({ action }) => action === 'cut')) one.link.cut();
    else one.link.passOn();
  }

  /** Joins a client with a member, now that it is known who the client is. */
  function join(client: Socket, { to, port }: { to: number; port: number }, hello: Buffer): void {
    const { memberPort, appName } = openerOf(hello);
    const from = memberPort === undefined ? undefined : members.get(memberPort);
    const server = connect(port, '127.0.0.1');
    const one: OpenLink = {
      link: new Link(client, server, (direction) => treatmentOf(one, direction)),
      route: { to, ...(from !== undefined && { from }) },
      isSpared: sparedApp !== undefined && appName === sparedApp,
    };
    open.add(one);
    const ended = new Set<Socket>();
    for (const socket of [client, server]) socket.on('close', () => ended.add(socket).size === 2 && open.delete(one));

    let losesAnswer = false;
    const read = createMessageReader((message) => {
      const command = commandOf(message);
      if (!command || one.isSpared || from !== undefined) return;
      one.route.kind ??= command.name === 'hello' ? 'monitors' : 'pool';
      losesAnswer ||= [...losses].some((isLost) => isLost(command));
    });
    function up(bytes: Buffer): void {
      read(bytes);
      one.link.take('up', bytes);
    }
    client.on('data', up);
    server.on('data', (bytes) => (losesAnswer ? one.link.cut() : one.link.take('down', bytes)));
    up(hello);
    update(one);
  }

  return {
    async addMember(member, port) {
      members.set(port, member);
      const server = createServer((client) => {
        let hello = Buffer.alloc(0);
        client.on('error', () => {});
        client.on('data', function gather(bytes) {
          hello = Buffer.concat([hello, bytes]);
          if (!isWhole(hello)) return;
          client.off('data', gather);
          join(client, { to: member, port }, hello);
        });
      });
      servers.push(server);
      return `127.0.0.1:${await listenOn(server)}`;
    },
    inject(fault) {
      const { on = () => true, openOnly = false } = fault;
      const met = openOnly ? new Set([...open].filter(({ route }) => on(route))) : undefined;
      const find = (one: OpenLink) => ((met ? met.has(one) : on(one.route)) ? fault : undefined);
      faults.add(find);
      for (const one of open) update(one);
      return () => {
        faults.delete(find);
        for (const one of open) update(one);
      };
    },
    loseAnswers(isMeant, times) {
      let left = times;
      const isLost = (command: Command) => {
        if (left === 0 || !isMeant(command)) return false;
        left -= 1;
        return true;
      };
      losses.add(isLost);
      return { left: () => left, stop: () => void losses.delete(isLost) };
    },
    count: (on) => [...open].filter(({ route }) => on(route)).length,
    async close() {
      for (const { link } of open) link.cut();
      for (const server of servers) {
        server.close();
        server.unref();
      }
    },
  };
}
