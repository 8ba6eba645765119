// Processes of which the first one says that it serves just when it is told to stop.
import cluster from 'node:cluster';
import { leave, notifyReady, startProcesses } from '../../../src/cli/server/processes.ts';

if (cluster.isWorker) {
  process.on('SIGTERM', () => {
    notifyReady();
    setTimeout(leave, 100);
  });
  process.send?.('listens');
} else {
  const processes = startProcesses(2, (line) => console.log(line));
  cluster.on('message', (_, message) => {
    if (message === 'listens') void processes.stop().then(() => console.log('all have ended'));
  });
}
