import mongoose, { type Connection } from 'mongoose';
import { dropLater, freshUri } from './mongo.ts';

/** One command as the server got it. */
export interface SeenCommand {
  readonly name: string;
  readonly command: Readonly<Record<string, unknown>>;
}

/** A connection to a fresh database that tells which commands went to one collection. */
export async function watchedDatabase(options: mongoose.ConnectOptions = {}): Promise<{
  connection: Connection;
  uri: string;
  commandsTo: (collection: string) => readonly SeenCommand[];
  forget: () => void;
  drop: () => Promise<void>;
}> {
  const uri = freshUri();
  const connection = await mongoose.createConnection(uri, { ...options, monitorCommands: true }).asPromise();
  const seen: SeenCommand[] = [];
  connection.getClient().on('commandStarted', ({ commandName, command }) => {
    seen.push({ name: commandName, command });
  });
  return {
    connection,
    uri,
    commandsTo: (collection) => seen.filter(({ name, command }) => command[name] === collection),
    forget: () => {
      seen.length = 0;
    },
    async drop() {
      dropLater(connection);
    },
  };
}
