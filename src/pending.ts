/**
 * Whether a value is still to come. What is there at once is not awaited on a call's way: each `await` takes promises and a turn of the
 * microtasks. Told by its `then`, for async functions return the engine's own promises, also where a host has replaced `Promise`.
 */
export function isPending<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as { then?: unknown } | undefined | null)?.then === 'function';
}
