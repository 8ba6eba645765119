import { expect } from 'chai';
import { until } from '../support/until.ts';
import type { Failure } from './failure.ts';
import type { Scene } from './scene.ts';

const tenMinutes = 600_000;

/** Moves the time from which something may be claimed back, as if it had been due for ten minutes: nobody waits for that here. */
async function makeOld({ database }: Scene, collection: string, field: string, filter: object): Promise<number> {
  const back = [{ $set: { [field]: { $subtract: ['$$NOW', tenMinutes] } } }];
  const { matchedCount } = await database.collection(`gateway_${collection}`).updateMany(filter, back);
  return matchedCount;
}

/** What fails about deliveries, and about those that the gateway calls. */
export const trafficFailures: readonly Failure[] = [
  {
    name: 'worker gone: the only one has ended, and events wait for it',
    async inject(scene) {
      await scene.stopWorker();
      await scene.publish();
      expect(await makeOld(scene, 'events', 'fanOutAt', { fanOut: 'pending' })).to.equal(1);
      return scene.startWorker;
    },
    metric: ['gateway_events_oldest_due_seconds', (value = 0) => value > 300],
    health: { status: 200, checks: { workers: 'degraded', backlog: 'degraded', worker: 'off' } },
    alerts: ['GatewayWorkerStopped', 'GatewayDeliveriesLate'],
    doctor: {
      code: 2,
      findings: [
        /^failed workers: no live process makes delivery attempts, and some are due/,
        /^failed fan-outs: 1 events wait for their deliveries, the oldest for 6\d\d s/,
      ],
    },
  },
  {
    name: 'backlog old: deliveries are due, and the worker has no room for them',
    async inject(scene) {
      const { receiver, publish, database } = scene;
      receiver.hang();
      for (let i = 0; i < 6; i += 1) await publish();
      const waiting = { state: 'pending', lease: null };
      await until(async () => (await database.collection('gateway_deliveries').countDocuments(waiting)) >= 4);
      expect(await makeOld(scene, 'deliveries', 'claimableAt', waiting)).to.be.at.least(4);
      return receiver.answer;
    },
    metric: ['gateway_deliveries_oldest_due_seconds', (value = 0) => value > 300],
    health: { status: 200, checks: { backlog: 'degraded', workers: 'ok' } },
    alerts: ['GatewayDeliveriesLate'],
    also: ['GatewayAttemptsFailing'],
    doctor: {
      code: 2,
      findings: [/^failed deliveries: \d deliveries are due and not claimed, the oldest for 6\d\d s/],
    },
  },
  {
    name: 'hanging upstream: it accepts calls and answers none',
    async inject({ one, call }) {
      one.hang();
      const calls = call('one', 'usr_hang', 6);
      return async () => {
        one.answer();
        await calls;
      };
    },
    metric: ['gateway_upstream_failures_total{upstream="one",code="timeout"}', (value = 0) => value >= 6],
    health: { status: 200, checks: { upstreams: 'degraded' }, hangingUpstreams: ['one'] },
    alerts: ['GatewayUpstreamHanging'],
    also: ['GatewayUpstreamFailing'],
    doctor: {
      code: 2,
      findings: [
        /^failed upstreams: one \(.*\): timeout/,
        /^failed hanging upstreams: one accepts calls and answers none/,
      ],
    },
  },
  {
    name: 'breaker open: an upstream refuses connections',
    async inject({ two }) {
      await two.stop();
      return two.start;
    },
    traffic: ({ call }) => call('two', 'usr_breaker', 3),
    metric: ['gateway_upstream_breaker_open{upstream="two"}', (value) => value === 1],
    health: { status: 200, checks: { upstreams: 'degraded' }, openBreakers: ['two'] },
    alerts: ['GatewayBreakerOpen'],
    also: ['GatewayUpstreamFailing'],
    doctor: {
      code: 2,
      findings: [/^failed upstreams: two \(.*\): connect_refused/, /^failed breakers: two has an open breaker/],
    },
  },
  {
    name: 'DNS down: the name server does not answer',
    async inject({ names, one, publish }) {
      names.hang();
      // a connection that is open needs no name
      one.answer();
      await publish();
      return names.answer;
    },
    traffic: ({ call }) => call('one', 'usr_dns', 2),
    metric: ['gateway_upstream_failures_total{upstream="one",code="dns_failed"}', (value = 0) => value >= 5],
    health: { status: 200, checks: { upstreams: 'degraded' }, openBreakers: ['one'] },
    alerts: ['GatewayDnsFailing'],
    also: ['GatewayUpstreamFailing', 'GatewayBreakerOpen', 'GatewayAttemptsFailing'],
    doctor: {
      code: 2,
      findings: [/^failed upstreams: one \(.*\): dns_failed/, /^failed breakers: one has an open breaker/],
    },
  },
];
