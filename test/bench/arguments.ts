/** A list of whole numbers above 0: `1,2,4`. @throws naming the option */
export function wholeNumbers(option: string, text: string): number[] {
  const numbers = text.split(',').map(Number);
  if (!numbers.every((number) => Number.isInteger(number) && number > 0)) {
    throw new TypeError(`--${option} takes whole numbers above 0, not ${text}`);
  }
  return numbers;
}

/** @throws naming the option */
export function positiveNumber(option: string, text: string): number {
  const number = Number(text);
  if (!(number > 0)) throw new TypeError(`--${option} takes a number above 0, not ${text}`);
  return number;
}

/** Groups of rows, each with the seconds of one round on two cores. */
type Durations<Group extends string> = Readonly<Record<Group, number>>;

/** What help says of `--only`. */
export function describeGroups(durations: Durations<string>): string {
  return `some of ${Object.entries(durations)
    .map(([group, seconds]) => `${group} (${seconds} s a round)`)
    .join(', ')}`;
}

/** The groups that `--only` names, all without it. @throws naming the option */
export function readGroups<Group extends string>(durations: Durations<Group>, only: string | undefined): Group[] {
  const all = Object.keys(durations) as Group[];
  const names = only?.split(',');
  const unknown = names?.find((name) => !(all as string[]).includes(name));
  if (unknown !== undefined) throw new TypeError(`--only takes some of ${all.join(', ')}, not ${unknown}`);
  return all.filter((group) => names?.includes(group) ?? true);
}

/** Says on stderr how long groups take that are measured so often. */
export function announce<Group extends string>(
  durations: Durations<Group>,
  groups: readonly Group[],
  times: number,
): void {
  const seconds = groups.reduce((sum, group) => sum + durations[group], 0);
  console.error(`  some ${Math.ceil((seconds * times) / 60)} minutes`);
}

/** With `--help` prints what a benchmark takes, and ends. @param options each as it is written, and what it does */
export function showHelp(command: string, options: Readonly<Record<string, string>>): void {
  if (!process.argv.includes('--help')) return;
  const all = {
    ...options,
    '--node=<20, 24, another major version, or a path>': 'the Node that everything runs on; 24 without it',
  };
  const lines = Object.entries(all).map(([option, what]) => `  ${option}\n      ${what}\n`);
  console.log(`npm run ${command} -- [options]\n\n${lines.join('')}`);
  process.exit();
}
