import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect } from 'chai';
import { BSON, type Document, MongoClient } from 'mongodb';
import { listenOn } from '../../support/listen.ts';
import { commandOf, createMessageReader, isWhole, openerOf } from './wire.ts';

/** An OP_MSG without checksum. */
function message(command: Document): Buffer {
  const body = BSON.serialize(command);
  const header = Buffer.alloc(21);
  header.writeInt32LE(header.length + body.length);
  header.writeInt32LE(2013, 12);
  return Buffer.concat([header, body]);
}

describe('what the wire protocol shows', () => {
  it('is the appName of a client', async () => {
    const server = createServer();
    const port = await listenOn(server);
    const client = new MongoClient(`mongodb://127.0.0.1:${port}/`, { appName: 'some-worker', directConnection: true });
    const connecting = client.connect().catch(() => {});
    const [socket] = await once(server, 'connection');
    const [hello] = await once(socket, 'data');
    expect(isWhole(hello)).to.equal(true);
    expect(openerOf(hello)).to.deep.equal({ appName: 'some-worker' });
    socket.destroy();
    server.close();
    await client.close();
    await connecting;
  });

  it('is the port of a member, and nothing for a connection that does not identify itself', () => {
    expect(openerOf(message({ hello: 1, hostInfo: 'localhost:27018' }))).to.deep.equal({ memberPort: 27018 });
    expect(openerOf(message({ hello: 1 }))).to.deep.equal({});
  });

  it('is the command and its collection', () => {
    expect(commandOf(message({ insert: 'events', documents: [] }))).to.deep.equal({
      name: 'insert',
      collection: 'events',
    });
    expect(commandOf(message({ commitTransaction: 1 }))).to.deep.equal({ name: 'commitTransaction' });
    expect(commandOf(Buffer.from('something else that is no message'))).to.equal(undefined);
  });

  it('is where each message begins, however large the one before', () => {
    const messages = [message({ insert: 'a', padding: 'x'.repeat(5_000) }), message({ find: 'b' })];
    const names: unknown[] = [];
    const read = createMessageReader((beginning) => names.push(commandOf(beginning)?.name));
    const [first, second] = messages as [Buffer, Buffer];
    read(first.subarray(0, 3_000));
    read(Buffer.concat([first.subarray(3_000), second]));
    expect(names).to.deep.equal(['insert', 'find']);
    expect(isWhole(first.subarray(0, 3_000))).to.equal(false);
  });
});
