import { refuse } from '../errors.ts';
/** @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message */
export function refuseOption(param: string, message: string): never {
  refuse('invalid_options', param, message);
}

/** @throws GatewayError `invalid_options` for the first key that is not allowed, with those that are */
export function checkKeys(param: string, given: object, allowed: readonly string[]): void {
  for (const key of Object.keys(given)) {
    if (!allowed.includes(key)) refuseOption(`${param}.${key}`, `is not an option; there are ${allowed.join(', ')}`);
  }
}

/** The least and the most that options may be. */
export type Bounds<Options> = { readonly [Name in keyof Options]?: readonly [min: number, max: number] };

/** @throws GatewayError `invalid_options` for the first that is not a whole number within its bounds */
export function checkIntegers<Options extends object>(options: Options, bounds: Bounds<Options>): void {
  for (const [name, [min, max]] of Object.entries(bounds) as [string, readonly [number, number]][]) {
    const value: unknown = options[name as keyof Options];
    if (Number.isInteger(value) && Number(value) >= min && Number(value) <= max) continue;
    refuseOption(name, `must be a whole number from ${min} to ${max}, not ${String(value)}`);
  }
}
