import { expect } from 'chai';
import express from 'express';
import { scopes } from '../../src/index.ts';
import { type BreakableDatabase, faultNames, startBreakableDatabase } from '../support/database/breakable-database.ts';
import { createGateway } from '../support/gateway.ts';
import { listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { until } from '../support/until.ts';
import { FileProvider } from './file-provider.ts';

const json = { 'content-type': 'application/json' };
/** 5 s, and half as much again for a machine that is busy. Milliseconds. */
const answeredWithin = 7_500;

describe('a file that its upstream has made while the database fails', function () {
  this.timeout(120_000);
  let database: BreakableDatabase;
  let provider: FileProvider;
  before(async () => {
    database = await startBreakableDatabase();
    provider = await FileProvider.start();
  });
  after(async () => {
    await provider.close();
    await database.stop();
  });

  it('is acknowledged and listed, or refused with the id in the log; each one that was acknowledged stays', async () => {
    const logger = recordingLogger();
    const gateway = await createGateway({
      mongo: database.uri,
      logger,
      upstreams: [{ name: 'up', baseUrl: provider.baseUrl }],
    });
    const { url, close } = await listen(express().use(gateway.router));
    await gateway.start();
    const { key } = await gateway.keys.create({ userId: 'usr_1', scopes });
    const headers = { authorization: `Bearer ${key}` };
    async function upload() {
      const body = new FormData();
      body.append('purpose', 'user_data');
      body.append('file', new Blob(['Tagus']), 'a.txt');
      const response = await fetch(`${url}/v1/files`, { method: 'POST', headers, body });
      const answer = (await response.json()) as { id: string; error?: { code: string } };
      return { status: response.status, retry: response.headers.get('x-should-retry'), ...answer };
    }
    const listed = async (): Promise<string[] | undefined> => {
      const response = await fetch(`${url}/v1/files`, { headers });
      const { data } = (await response.json()) as { data?: { id: string }[] };
      return data?.map(({ id }) => id);
    };
    const acknowledged: string[] = [];
    const noted = (id: string) => logger.lines.some(({ fields }) => fields?.id === id);
    for (const [i, name] of faultNames.entries()) {
      const fault = database.faults[name];
      acknowledged.push((await upload()).id);
      const id = `file-fault-${i}`;
      provider.onUpload = (req, res) => {
        req.resume().on('end', async () => {
          await fault.begin();
          provider.keep(Buffer.from('x'), 'a.txt', 'user_data', id);
          res.writeHead(200, json).end(JSON.stringify({ id, object: 'file' }));
        });
      };
      const startedAt = performance.now();
      const answer = await upload();
      expect(performance.now() - startedAt, name).to.be.below(answeredWithin);
      provider.onUpload = undefined;
      if (answer.status === 200) acknowledged.push(id);
      else {
        expect([answer.status, answer.error?.code, answer.retry], name).to.deep.equal([
          503,
          'database_unavailable',
          'false',
        ]);
        expect(noted(id), `${name}: the log has the id`).to.equal(true);
      }
      await fault.end();
      await until(async () => (await upload().catch(() => undefined))?.status === 200, 60_000, name);
      await until(listed, 30_000, name);
      expect(await listed(), name).to.include.members(acknowledged);
    }
    await close();
    await gateway.close();
  });
});
