import { checkIntegers } from '../checks.ts';

/** Sizes of request bodies. */
export interface BodyOptions {
  /** The largest body of a model call, in bytes. @default 33_554_432 (32 MiB) */
  readonly modelBodyLimit?: number;
  /** The largest body of any other call, in bytes. @default 262_144 (256 KiB) */
  readonly webhookBodyLimit?: number;
  /**
   * Bytes of request bodies, decompressed, that this process holds at once: bodies that are still arriving, and bodies that
   * are kept until an upstream answers. One account may hold as much as is free. At least twice `modelBodyLimit`.
   * @default 268_435_456 (256 MiB), or twice `modelBodyLimit` where that is more
   */
  readonly bodyMemory?: number;
}

const mebibyte = 1024 ** 2;

const defaults = { modelBodyLimit: 32 * mebibyte, webhookBodyLimit: 256 * 1024 } satisfies BodyOptions;

/** What the options of bodies are where they are left out. */
export function bodyDefaults({ modelBodyLimit = defaults.modelBodyLimit }: BodyOptions) {
  return { ...defaults, bodyMemory: Math.max(256 * mebibyte, 2 * modelBodyLimit) };
}

/** @throws GatewayError `invalid_options`, naming the option */
export function checkBodyOptions(options: Required<BodyOptions>): void {
  checkIntegers(options, {
    modelBodyLimit: [1, 1024 * mebibyte],
    webhookBodyLimit: [1, 16 * mebibyte],
  });
  // an account alone may fill half of it
  checkIntegers(options, { bodyMemory: [2 * options.modelBodyLimit, 1024 ** 4] });
}
