// Which commands a process sends to its database, and which function of the package each came from. Plain JavaScript, as the
// processes under test are.

/** Lines of a stack that are of the package, without the places that all commands pass. */
function callers(stack) {
  const own = stack.split('\n').filter((line) => line.includes('/dist/'));
  return (own.find((line) => !line.includes('/dist/mongo/')) ?? own[0] ?? '').trim();
}

/**
 * Counts the commands of a connection that was opened with `monitorCommands`, which costs CPU.
 * @returns a function that tells those since it was called last, each with how often
 */
export function createCommandCounter(connection) {
  const counts = new Map();
  Error.stackTraceLimit = 50;
  connection.getClient().on('commandStarted', ({ commandName, command }) => {
    const at = /at (?:async )?(\S+) \(file:.*\/dist\/(.+?):\d+:\d+\)/.exec(callers(new Error().stack ?? ''));
    const name = `${commandName} ${typeof command[commandName] === 'string' ? command[commandName] : ''}`.trim();
    const key = JSON.stringify([name, at ? `${at[1]} in ${at[2]}` : 'driver']);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  });
  return function sentSince() {
    const sent = [...counts].map(([key, count]) => {
      const [command, caller] = JSON.parse(key);
      return { command, caller, count };
    });
    counts.clear();
    return sent;
  };
}
