import { expect } from 'chai';
import OpenAI from 'openai';
import { createModelGateway, type UsageRecord } from '../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { json, type Script, ScriptedUpstream } from '../support/upstream.ts';
import { responseOf } from './support.ts';

/** The fields of a response that its upstream still makes. */
export const running = { status: 'in_progress', output: [], usage: null };

/** A call for a response that is made in the background. */
export const request = { model: 'm', input: 'Hi', background: true } as const;

/** A response of more than 17 MB, whose tools and metadata have members that are called as its own are. */
export function large(id: string, fields: object = {}): Script {
  const usage = { input_tokens: 0, output_tokens: 0, status: 'in_progress' };
  const tools = [{ type: 'function', name: 'f', parameters: { usage, output: [], text: 'a\\"usage": {' } }];
  const image = { type: 'image_generation_call', id: 'ig_1', status: 'in_progress', result: 'A'.repeat(17e6) };
  const { output, ...rest } = responseOf(id);
  const bytes = Buffer.from(JSON.stringify({ tools, output: [image, ...output], ...rest, ...fields }));
  return json(200, bytes);
}

/** An upstream that makes responses in the background, and two processes on one database. */
export type BackgroundSetup = Awaited<ReturnType<typeof startBackground>>;

/** @param pollInterval of both processes, of which one polls. Milliseconds. */
export async function startBackground(pollInterval: number) {
  const database = await freshDatabase();
  const upstream = await ScriptedUpstream.start();
  const logger = recordingLogger();
  const records: UsageRecord[] = [];
  /** What the upstream answers about a response; 404 about any other. */
  const states = new Map<string, Script>();
  const calls = {
    /** What the upstream answers a call for a new response. */
    created: json(200, {}),
  };
  upstream.script = (res, { path, ...rest }) => {
    const id = /\/responses\/(resp_\w+)/.exec(path)?.[1];
    return (id === undefined ? calls.created : (states.get(id) ?? json(404, {})))(res, { path, ...rest });
  };
  const options = {
    ...loopbackOptions,
    mongo: database.connection,
    secretKeys: [newSecretKey()],
    upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
    credits: { prices: { '*': { input: 1_000, output: 1_000 } }, initialBalance: 10 },
    background: { pollInterval },
    onUsage: (record: UsageRecord) => void records.push(record),
    logger,
  };
  const gateway = await createModelGateway(options);
  const idle = await createModelGateway(options);
  const server = await listen((req, res) => gateway.router(req, res));
  const idleServer = await listen((req, res) => idle.router(req, res));
  await gateway.start();

  const stored = database.connection.collection<{ _id: string; background: { usage: { id: string } } }>(
    'gateway_stored',
  );
  const uncounted = (userId: string) => stored.countDocuments({ userId, background: { $exists: true } });
  let accounts = 0;

  return {
    gateway,
    upstream,
    logger,
    states,
    calls,
    stored,
    usages: database.connection.collection<Record<string, unknown> & { _id: string }>('gateway_usage'),

    /** A new account. @param isIdle whether it calls the process that polls nothing by itself */
    async newAccount({ isIdle = false } = {}) {
      accounts += 1;
      const userId = `usr_${accounts}`;
      const { key } = await gateway.keys.create({ userId });
      const baseURL = `${(isIdle ? idleServer : server).url}/v1`;
      const recorded = () => records.filter((record) => record.userId === userId);
      return {
        userId,
        client: new OpenAI({ apiKey: key, baseURL, maxRetries: 0 }),
        recorded,
        /** Its one record, when it is charged for too. */
        async counted() {
          const sums = async () => (await gateway.usage?.report(userId, {}))?.lines[0];
          await until(
            async () => recorded().length > 0 && (await sums()) !== undefined && (await uncounted(userId)) === 0,
          );
          const [record, ...more] = recorded();
          expect(more).to.deep.equal([]);
          const tokens = (record?.inputTokens ?? 0) + (record?.outputTokens ?? 0);
          expect(await sums()).to.include({ requests: 1 });
          const left = (await gateway.credits?.balance(userId))?.creditsRemaining;
          expect(left).to.be.closeTo(10 - tokens / 1_000, 1e-9);
          return record;
        },
      };
    },

    async close() {
      await Promise.all([server.close(), idleServer.close()]);
      // first, for the gateways wait for the end of what the upstream still makes
      await upstream.close();
      await Promise.all([gateway.close(), idle.close()]);
      await database.drop();
    },
  };
}
