/** Whether a function has given a promise, its own or another library's, instead of a value. */
export function isPending<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as Promise<T> | null | undefined)?.then === 'function';
}
