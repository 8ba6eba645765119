import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { BSON } from 'mongodb';
import { listenOn } from '../../support/listen.ts';
import { until } from '../../support/until.ts';
import { createNetwork, type Network } from './network.ts';

/** A command as clients send it, a document after 21 bytes of header. */
function command(document: object): Buffer {
  const body = BSON.serialize(document);
  const header = Buffer.alloc(21);
  header.writeInt32LE(header.length + body.length);
  header.writeInt32LE(2013, 12);
  return Buffer.concat([header, body]);
}

const ping = command({ ping: 1 });

describe('the network of the fault suite', () => {
  let network: Network;
  let member: Server;
  let address: number;
  /** The connections that the member has, and how many bytes it was sent. */
  let sockets: Socket[];
  let received: number;
  const clients: Socket[] = [];

  beforeEach(async () => {
    sockets = [];
    received = 0;
    // answers with what it is sent
    member = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        received += bytes.length;
        socket.write(bytes);
      });
    });
    network = createNetwork('spared');
    const known = await network.addMember(0, await listenOn(member));
    address = Number(known.split(':')[1]);
  });
  afterEach(async () => {
    for (const socket of [...clients.splice(0), ...sockets]) socket.destroy();
    await network.close();
    member.close();
  });

  /** A client that has said who it is and was answered. */
  async function open(hello: object = { hello: 1 }) {
    const socket = connect(address, '127.0.0.1');
    clients.push(socket);
    let answered = 0;
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      answered += bytes.length;
    });
    const first = command(hello);
    socket.write(first);
    return {
      socket,
      answered: () => answered,
      hasAnswer: (count = 1) => until(() => answered >= first.length + count * ping.length),
      isReady: () => until(() => answered >= first.length),
    };
  }

  /** Long enough for anything to arrive that can. */
  const aWhile = () => sleep(60);

  it('holds what is sent until it is healed, and then delivers all of it', async () => {
    const client = await open();
    await client.isReady();
    const before = client.answered();
    const heal = network.inject({ action: 'hold' });
    client.socket.write(ping);
    client.socket.write(ping);
    await aWhile();
    expect(client.answered()).to.equal(before);
    heal();
    await client.hasAnswer(2);
  });

  it('drops what is sent one way, and everything that follows on the same connection', async () => {
    const client = await open();
    await client.isReady();
    const [before, receivedBefore] = [client.answered(), received];
    const heal = network.inject({ action: 'swallow', way: 'down' });
    client.socket.write(ping);
    await until(() => received > receivedBefore);
    heal();
    client.socket.write(ping);
    await until(() => received === receivedBefore + 2 * ping.length);
    await aWhile();
    expect(client.answered()).to.equal(before);
    expect(client.socket.destroyed).to.equal(false);
  });

  it('leaves a connection half-open when one side closes it during a fault, until it is healed', async () => {
    const client = await open();
    await client.isReady();
    const heal = network.inject({ action: 'swallow' });
    client.socket.destroy();
    await aWhile();
    expect(sockets[0]?.destroyed).to.equal(false);
    heal();
    await until(() => sockets[0]?.destroyed === true);
  });

  it('spares connections that are opened later when it is told to', async () => {
    const old = await open();
    await old.isReady();
    const before = old.answered();
    network.inject({ action: 'swallow', openOnly: true });
    const young = await open();
    young.socket.write(ping);
    old.socket.write(ping);
    await young.hasAnswer();
    await aWhile();
    expect(old.answered()).to.equal(before);
  });

  it('closes connections, and each new one, until it is healed', async () => {
    const client = await open();
    await client.isReady();
    const heal = network.inject({ action: 'cut' });
    await until(() => client.socket.destroyed && sockets[0]?.destroyed === true);
    const refused = await open();
    await until(() => refused.socket.destroyed);
    heal();
    const welcome = await open();
    await welcome.isReady();
    expect(welcome.socket.destroyed).to.equal(false);
  });

  it('delays what is sent', async () => {
    const client = await open();
    await client.isReady();
    network.inject({ action: 'delay', delay: 80, way: 'up' });
    const started = performance.now();
    client.socket.write(ping);
    await client.hasAnswer();
    expect(performance.now() - started).to.be.at.least(75);
  });

  it('distinguishes members from clients, and spares the app that nothing is to happen to', async () => {
    const other = createServer((socket) => socket.on('error', () => {}));
    const port = await listenOn(other);
    await network.addMember(1, port);
    const fromMember = await open({ hello: 1, hostInfo: `host:${port}` });
    const spared = await open({ hello: 1, client: { application: { name: 'spared' } } });
    const client = await open();
    for (const one of [fromMember, spared, client]) await one.isReady();
    network.inject({ action: 'cut', on: ({ from, to }) => from === 1 && to === 0 });
    await until(() => fromMember.socket.destroyed);
    network.inject({ action: 'cut' });
    await until(() => client.socket.destroyed);
    spared.socket.write(ping);
    await spared.hasAnswer();
    expect(spared.socket.destroyed).to.equal(false);
    other.close();
  });

  it('loses the answer to a command that was carried out, and closes its connection', async () => {
    const loss = network.loseAnswers(({ name, collection }) => name === 'insert' && collection === 'events', 1);
    const client = await open();
    client.socket.write(ping);
    await client.hasAnswer();
    const before = received;
    client.socket.write(command({ insert: 'events' }));
    await until(() => client.socket.destroyed);
    expect(received).to.be.above(before);
    expect(client.answered()).to.equal(before);
    expect(loss.left()).to.equal(0);
    const next = await open();
    next.socket.write(command({ insert: 'events' }));
    await next.hasAnswer();
  });
});
