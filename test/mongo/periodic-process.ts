import { createPeriodic } from '../../src/mongo/periodic.ts';

/** A process with nothing to do but what is done again and again: it waits for the next run, or for one that never ends. */
const logger = { warn() {} };
createPeriodic({ name: 'soon', task() {}, interval: 60_000, logger }).start();
createPeriodic({ name: 'for ever', task: () => new Promise(() => {}), interval: 60_000, logger }).start();
