import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { allDialects, endpointCalls, ownedByAll, send } from './endpoint-calls.ts';

describe('a client that disconnects', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let records: UsageRecord[];
  /** How the calls were over for those who had let them through. */
  let settled: string[];
  /** Whether the gateway has seen that the client disconnected. */
  let disconnected: boolean;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer(
      {
        // a call that kept its place would refuse the next one
        upstreams: [
          { name: 'one', baseUrl: upstream.baseUrl, speaks: allDialects, maxConcurrency: 1, includeUsage: false },
        ],
        storedObjects: ownedByAll('one'),
        hooks: { onUsage: (record) => void records.push(record) },
        admissionChecks: [
          () => ({ closed: () => void settled.push('closed'), dropped: () => void settled.push('dropped') }),
        ],
      },
      [
        (_req, res, next) => {
          res.once('close', () => {
            disconnected = true;
          });
          next();
        },
      ],
    );
  });
  beforeEach(() => {
    records = [];
    settled = [];
    disconnected = false;
    upstream.requests.length = 0;
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  for (const call of endpointCalls) {
    for (const [when, sent] of [
      ['before the first byte', undefined],
      ['inside the answer', call.answer[0]?.subarray(0, 30)],
    ] as const) {
      const outcome = call.runsOn ? 'lets the upstream finish' : 'aborts the upstream';
      it(`${when} of ${call.name} ${outcome}, and is ${call.isMetered ? 'metered' : 'charged nothing'}`, async () => {
        let finish: () => void = () => {};
        upstream.script = (res) => {
          if (sent) res.writeHead(200, { 'content-type': call.answerType }).write(sent);
          finish = () => {
            if (!sent) res.writeHead(200, { 'content-type': call.answerType });
            res.end(Buffer.concat(call.answer).subarray(sent?.length ?? 0));
          };
        };
        const disconnect = new AbortController();
        const cutOff = send(server.baseUrl, call, disconnect.signal).then((response) => response.text());
        cutOff.catch(() => {});
        const { closed } = await upstream.received(1);
        disconnect.abort();
        await until(() => disconnected);
        if (call.runsOn) finish();
        expect(await closed).to.equal(call.runsOn === true);
        const isAdmitted = call.method === 'POST' && call.body !== undefined;
        const [record, settlement] = call.isMetered ? [['client_left'], 'closed'] : [[], 'dropped'];
        const settlements = isAdmitted ? [settlement] : [];
        await until(() => records.length >= record.length && settled.length >= settlements.length);
        // a call that goes well, so that what the first one records late is seen too
        upstream.script = json(200, Buffer.concat(call.answer), { 'content-type': call.answerType });
        let calls = 0;
        await until(async () => {
          calls += 1;
          const response = await send(server.baseUrl, call);
          await response.text();
          return response.status === 200;
        });
        const whole = call.isMetered ? ['complete'] : [];
        const all = [...settlements, ...Array(calls).fill(settlements).flat()];
        await until(() => records.length >= record.length + whole.length && settled.length >= all.length);
        expect([records.map(({ ending }) => ending), settled]).to.deep.equal([[...record, ...whole], all]);
      });
    }
  }
});
