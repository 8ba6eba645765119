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
