/**
 * Tests that mostly wait, for a lease to end say: all begin together, and each is reported by itself.
 * @param tests what each shows, and how
 */
export function atOnce(tests: Readonly<Record<string, () => Promise<void>>>): void {
  const running = new Map<string, Promise<void>>();
  before(() => {
    for (const [title, test] of Object.entries(tests)) {
      const run = test();
      // its failure is told when its turn comes
      run.catch(() => {});
      running.set(title, run);
    }
  });
  for (const title of Object.keys(tests)) it(title, () => running.get(title));
}
