/** What MongoDB's wire protocol shows of a connection and of the commands it carries; little-endian, BSON from `bodyAt` on. */

/** Bytes of a message's header: length, request id, id of the request it answers, opcode. */
const headerLength = 16;
const opMsg = 2013;
/** Where the command's document begins in an OP_MSG: after the header, the flags and the kind of the first section. */
const bodyAt = 21;
const string = 0x02;

/** A command as its first element tells it. */
export interface Command {
  readonly name: string;
  /** What it works on; absent when that is no collection. */
  readonly collection?: string;
}

/** Who opened a connection, as it says of itself in its first message. */
export interface Opener {
  /** The port of the member that it comes from. Members say so when test commands are enabled. */
  readonly memberPort?: number;
  /** `appName` of a client. */
  readonly appName?: string;
}

/** Whether a whole message is there. */
export function isWhole(bytes: Buffer): boolean {
  return bytes.length >= headerLength && bytes.length >= bytes.readInt32LE(0);
}

/**
 * Reads what a client sends, chunk by chunk, and tells of each message as it begins. A client sends no message before the last one was
 * answered, so that none begins in the middle of a chunk's last few bytes.
 */
export function createMessageReader(onMessage: (beginning: Buffer) => void): (bytes: Buffer) => void {
  let left = 0;
  return (bytes) => {
    for (let at = 0; at < bytes.length; ) {
      if (left === 0) {
        left = bytes.readInt32LE(at);
        onMessage(bytes.subarray(at));
      }
      const step = Math.min(left, bytes.length - at);
      left -= step;
      at += step;
    }
  };
}

/** The command that an OP_MSG begins with; of its bytes, the first 200 are enough. */
export function commandOf(message: Buffer): Command | undefined {
  if (message.length < headerLength || message.readInt32LE(12) !== opMsg) return undefined;
  const typeAt = bodyAt + 4;
  const nameEnd = message.indexOf(0, typeAt + 1);
  if (nameEnd < 0) return undefined;
  const name = message.toString('utf8', typeAt + 1, nameEnd);
  if (message[typeAt] !== string) return { name };
  return { name, collection: stringAt(message, nameEnd + 1) };
}

/** A BSON string: its length with the closing zero, then its bytes. */
function stringAt(bytes: Buffer, at: number): string {
  return bytes.toString('utf8', at + 4, at + 4 + bytes.readInt32LE(at) - 1);
}

/** The string of an element of this name that comes after `from`, wherever it is nested. */
function stringNamed(bytes: Buffer, name: string, from = 0): string | undefined {
  const element = Buffer.from(`\x02${name}\0`);
  const at = bytes.indexOf(element, from);
  return at < 0 ? undefined : stringAt(bytes, at + element.length);
}

export function openerOf(hello: Buffer): Opener {
  const memberPort = stringNamed(hello, 'hostInfo')?.split(':').at(-1);
  if (memberPort !== undefined) return { memberPort: Number(memberPort) };
  const application = hello.indexOf('\x03application\0');
  const appName = application < 0 ? undefined : stringNamed(hello, 'name', application);
  return appName === undefined ? {} : { appName };
}
