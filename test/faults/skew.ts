/** Loaded before anything else: from here on, this process's clock is wrong by CLOCK_SKEW_MS. */
const skew = Number(process.env.CLOCK_SKEW_MS ?? 0);
const RealDate = Date;

if (skew !== 0) {
  // mongoose knows the type by the name of its constructor
  class Skewed extends RealDate {
    // biome-ignore lint/suspicious/noExplicitAny: Date takes what Date takes
    constructor(...args: any[]) {
      if (args.length === 0) super(RealDate.now() + skew);
      else super(...(args as [number]));
    }
    static override now(): number {
      return RealDate.now() + skew;
    }
  }
  Object.defineProperty(Skewed, 'name', { value: 'Date' });
  globalThis.Date = Skewed as DateConstructor;
}
