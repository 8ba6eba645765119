/** The value of a number in decimal: its digits without zeros at either end, times ten to the power of the exponent. */
interface Decimal {
  /** Empty for zero. */
  readonly digits: string;
  readonly exponent: number;
}

const form = /^-?(\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** @param literal a number of JSON (RFC 8259, section 6), or `.5` as people type it */
function toDecimal(literal: string): Decimal | undefined {
  const [, whole = '', fraction = '', exponent = '0'] = form.exec(literal) ?? [];
  const all = whole + fraction;
  if (all === '') return undefined;
  let start = 0;
  while (all[start] === '0') start += 1;
  let end = all.length;
  while (end > start && all[end - 1] === '0') end -= 1;
  // an exponent that is too long for a double is beyond that of any double, too
  return { digits: all.slice(start, end), exponent: Number(exponent) - fraction.length + (all.length - end) };
}

/** Whether this is a number of JSON (RFC 8259, section 6), or one such as `.5`, which people type. */
export function isNumber(text: string): boolean {
  return toDecimal(text) !== undefined;
}

/**
 * Whether a number comes out of `JSON.parse` and `JSON.stringify` with the value that it has: 0.1, 1.50, 1e3 and
 * 100000000000000000000 do, 9007199254740993, 0.1000000000000000055 and 1e400 do not. The spelling may change, and `-0`
 * becomes `0`. Linear in the length of the literal, whatever its exponent.
 * @param literal a number of JSON (RFC 8259, section 6)
 */
export function isExactNumber(literal: string): boolean {
  const given = toDecimal(literal);
  // null where the number is too large for a double
  const written = toDecimal(JSON.stringify(Number(literal)));
  if (!given || !written || given.digits !== written.digits) return false;
  return given.digits === '' || given.exponent === written.exponent;
}
