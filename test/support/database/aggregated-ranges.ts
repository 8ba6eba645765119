import type { Connection } from 'mongoose';

interface Stage {
  readonly $unionWith?: { readonly pipeline: readonly object[] };
}

/**
 * What the aggregations that `ask` sends read, one pipeline for each range of an index: a command's own, and each that it joins by `$unionWith`.
 * @param connection monitors its commands
 */
export async function aggregatedRanges(connection: Connection, ask: () => Promise<unknown>): Promise<object[][]> {
  const pipelines: (readonly Stage[])[] = [];
  const note = ({ commandName, command }: { commandName: string; command: { pipeline?: readonly Stage[] } }) => {
    if (commandName === 'aggregate' && command.pipeline) pipelines.push(command.pipeline);
  };
  const client = connection.getClient();
  client.on('commandStarted', note);
  await ask();
  client.off('commandStarted', note);
  return pipelines.flatMap((stages) => [
    stages.filter(({ $unionWith }) => $unionWith === undefined),
    ...stages.flatMap(({ $unionWith }) => ($unionWith ? [[...$unionWith.pipeline]] : [])),
  ]);
}
