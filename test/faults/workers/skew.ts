/**
 * Loaded before anything else: from here on, this process's clock is wrong by CLOCK_SKEW_MS, and after a message of the suite by what
 * that says. Its monotonic clock stays right, as it does where a clock is set.
 */
let skew = Number(process.env.CLOCK_SKEW_MS ?? 0);
const RealDate = Date;

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

process.on('message', ({ clockSkew }: { clockSkew?: number }) => {
  skew = clockSkew ?? skew;
});
