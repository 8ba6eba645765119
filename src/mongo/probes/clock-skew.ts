/** How far this machine's clock may be from the database's: receivers refuse signatures that are five minutes old. Milliseconds. */
export const longestSkew = 10_000;

/** The database's clock, and this machine's before it was asked and after it answered. Milliseconds since 1970. */
interface ClockReading {
  readonly askedAt: number;
  readonly localTime: Date;
  readonly answeredAt: number;
}

/** By how much this machine is certainly ahead of the database; negative where it is behind. Milliseconds. */
export function clockSkew({ askedAt, localTime, answeredAt }: ClockReading): number {
  const [ahead, behind] = [askedAt - localTime.getTime(), localTime.getTime() - answeredAt];
  return behind > 0 ? -behind : Math.max(0, ahead);
}
