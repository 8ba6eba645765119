import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { command } from '../cli/recorded-terminal.ts';
import { newSecretKey } from '../support/gateway.ts';
import { startMembers } from './members.ts';
import { createMonitoring } from './monitoring.ts';
import { useNameServer } from './names.ts';
import { type Settings, startProcess } from './process.ts';
import { startService } from './service.ts';

interface Finding {
  readonly check: string;
  readonly status: string;
  readonly message: string;
}

/** Runs `doctor`. Resolves to its exit status, and what is not well. */
async function runDoctor(env: Readonly<Record<string, string>>) {
  const { code, json } = await command(['doctor', '--json'], { env });
  const told = (json.findings as readonly Finding[]).filter(({ status }) => status !== 'ok' && status !== 'skipped');
  return { code, findings: told.map(({ check, status, message }) => `${status} ${check}: ${message}`) };
}

/** Three members, a process that serves the API and one that makes attempts, two upstreams, a receiver and a name server. */
export async function startScene() {
  const members = await startMembers();
  const { uri, disk, connection } = members;
  const names = await useNameServer();
  const services = { one: await startService(), two: await startService(), receiver: await startService() };
  const timeouts = { connect: 2_000, firstByte: 4_000 };
  const upstreams = [
    { name: 'one', baseUrl: `http://one.game-day.example:${services.one.port}/v1`, models: ['one'], timeouts },
    { name: 'two', baseUrl: `http://127.0.0.1:${services.two.port}/v1`, models: ['two'], timeouts },
  ];
  const key = newSecretKey();
  const settings = { mongo: uri, secretKeys: [key], upstreams } satisfies Settings;
  const env = { MONGODB_URI: uri, SECRET_KEYS: key, UPSTREAMS_FILE: path.join(disk.path, 'upstreams.json') };
  await writeFile(env.UPSTREAMS_FILE, JSON.stringify(upstreams));
  const api = await startProcess(settings, false);
  let worker: Awaited<ReturnType<typeof startProcess>> | undefined = await startProcess(settings, true);
  const url = `http://receiver.game-day.example:${services.receiver.port}/`;
  await api.gateway.webhooks.create('usr_1', { url, events: ['credits.low'] });
  const apiKeys = new Map<string, string>();
  const monitoring = createMonitoring();

  return {
    ...services,
    members,
    names,
    key,
    env,
    api,
    monitoring,
    database: connection,
    processes: () => (worker ? [api, worker] : [api]),
    /** Ends the only process that makes attempts. */
    async stopWorker() {
      await worker?.stop();
      worker = undefined;
    },
    async startWorker() {
      worker = await startProcess(settings, true);
    },
    /** A process with other keys beside the others. */
    startOther: (secretKeys: readonly string[]) => startProcess({ ...settings, secretKeys: [...secretKeys] }, false),
    /** Makes so many model calls of one account at once. Resolves to their statuses. */
    async call(model: string, userId: string, count = 1): Promise<number[]> {
      const apiKey = apiKeys.get(userId) ?? (await api.gateway.keys.create({ userId })).key;
      apiKeys.set(userId, apiKey);
      return Promise.all(Array.from({ length: count }, () => api.call(model, apiKey)));
    },
    publish: () =>
      api.gateway.publish({
        type: 'credits.low',
        userId: 'usr_1',
        data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
      }),
    /** Scrapes every process once more. @param more what else is scraped at this moment, given what the API process shows */
    async scrape(more: (text: string) => string = () => '') {
      const [ofApi, ofWorker = ''] = await Promise.all([api.metrics(), worker?.metrics()]);
      monitoring.add({ api: ofApi, worker: ofWorker, other: more(ofApi) });
    },
    doctor: () => runDoctor(env),
    async stop() {
      await worker?.stop();
      await api.stop();
      names.stop();
      await Promise.all(Object.values(services).map((service) => service.stop()));
      await members.stop();
    },
  };
}

export type Scene = Awaited<ReturnType<typeof startScene>>;
