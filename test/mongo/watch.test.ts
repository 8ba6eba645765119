import { EventEmitter } from 'node:events';
import { expect } from 'chai';
import { createWatch } from '../../src/mongo/watch.ts';
import { silentLogger } from '../support/logger.ts';
import { until } from '../support/until.ts';

describe('Change streams on a database that offers none', () => {
  it('are given up with one clear warning, but opened again after any other error', async () => {
    const warnings: string[] = [];
    const streams: (EventEmitter & { close(): Promise<void> })[] = [];
    const collection = {
      watch() {
        const stream = Object.assign(new EventEmitter(), { async close() {} });
        streams.push(stream);
        return stream;
      },
    };
    const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
    const watch = createWatch({ collection: collection as never, which: {}, fields: [], onStored() {}, logger });
    watch.start();
    streams[0]?.emit('error', Object.assign(new Error('broken'), { code: 1 }));
    await until(() => streams.length >= 2);
    streams[1]?.emit('error', Object.assign(new Error('standalone'), { code: 40_573 }));
    // shows that no third stream is opened
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await watch.close();

    expect(streams).to.have.length(2);
    expect(warnings.at(-1)).to.match(/^deliveries\.changeStreams: this database offers none/);
  });
});
