import { createPeriodic } from '../../src/mongo/periodic.ts';
import { silentLogger as logger } from '../support/logger.ts';

/** A process with nothing to do but what is done again and again: it waits for the next run, or for one that never ends. */
createPeriodic({ name: 'soon', task() {}, interval: 60_000, logger }).start();
createPeriodic({ name: 'for ever', task: () => new Promise(() => {}), interval: 60_000, logger }).start();
