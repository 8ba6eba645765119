import { createOperationsListener, withProbes } from '../../src/cli/server/http-server.ts';
import { type Listening, listen } from './listen.ts';

type Observed = Parameters<typeof createOperationsListener>[0];

/** Serves what operators and their tools ask a gateway: its health and its metrics, as the stand-alone server does. */
export const listenForOperations = (gateway: Observed): Promise<Listening> => listen(createOperationsListener(gateway));

/** Serves the probes on the port of the API, as the stand-alone server does; any other request is answered empty. */
export const listenWithProbes = (gateway: Pick<Observed, 'health'>): Promise<Listening> =>
  listen(withProbes(gateway, (_req, res) => void res.end()));
