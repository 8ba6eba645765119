/**
 * Measures again, twice at most, while a measurement does not hold: a busy machine spoils some measurements, a fault in what is
 * measured spoils each. Inside `measure`, expect what must hold every time.
 */
export async function measureAgain<T>(measure: () => Promise<T>, holds: (measured: T) => boolean): Promise<T> {
  let measured = await measure();
  for (let again = 0; again < 2 && !holds(measured); again += 1) measured = await measure();
  return measured;
}
