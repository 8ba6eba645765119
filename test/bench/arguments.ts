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
