const whole = new Intl.NumberFormat();
const oneDecimal = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

/** `12,345` */
export function count(n: number): string {
  return whole.format(n);
}

const fraction = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });

/** `12,345`, `0.0125` */
export function amount(n: number): string {
  return Number.isInteger(n) || n >= 1_000 ? whole.format(n) : fraction.format(n);
}

/** `1 attempt`, `2 attempts` */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A share of 1 as `99.9%`; what is not quite all never shows as 100%, what is not quite nothing never as 0%. */
export function percent(share: number): string {
  const shown = share > 0.999 && share < 1 ? 0.999 : share > 0 && share < 0.001 ? 0.001 : share;
  return `${oneDecimal.format(shown * 100)}%`;
}

/** Milliseconds as `84 ms` or `1.2 s`. */
export function milliseconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${oneDecimal.format(ms / 1_000)} s`;
}
