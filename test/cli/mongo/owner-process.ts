import { startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';

/** A process that runs an embedded database on the data folder that PROCESS_CONFIG names, so that it can be killed. */
const { dataDir } = JSON.parse(process.env.PROCESS_CONFIG ?? '{}');
const mongo = await startEmbeddedMongo({ dataDir });
process.send?.({ uri: mongo.uri, pid: mongo.nodes[0]?.pid });
setInterval(() => {}, 1_000);
