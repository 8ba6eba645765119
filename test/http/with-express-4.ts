import { createServer } from 'node:http';
import { register } from 'node:module';

/** A process in which a host has installed Express 4: serves the API with operations that echo. Tells its port. */
const resolver =
  "export const resolve = (name, context, next) => next(name === 'express' ? 'express4' : name, context)";
register(`data:text/javascript,${encodeURIComponent(resolver)}`);

const { default: express } = await import('express');
const { listenOn } = await import('../support/listen.ts');
const { createFakeEdge } = await import('./fake-edge.ts');
const router = await createFakeEdge();
const app = express().use(process.argv[2] as string, router);
app.use((_req, res) => void res.status(299).send(`of the host, in Express 4: ${'lazyrouter' in app}`));
process.send?.(await listenOn(createServer(app)));
