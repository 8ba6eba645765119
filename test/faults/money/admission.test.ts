import { expect } from 'chai';
import { type AdmissionEvidence, answerFaults, limitFaults, overdraftFaults } from './admission.ts';
import type { SeenCall } from './calls.ts';

const bounds = { limit: 3, largestReservation: 150, unrecorded: 200 };
const cost = 100;

function callAt(sentAt: number, changed: Partial<SeenCall> = {}): SeenCall {
  const call = {
    id: `call-${sentAt}`,
    account: 'poor',
    pid: 7,
    sentAt,
    endedAt: sentAt + 50,
    status: 200,
    isWhole: true,
  };
  return { ...call, ...changed } as SeenCall;
}

const added = (confirmedAt: number, amount: number) => ({
  entryId: `top_up:${confirmedAt}`,
  userId: 'usr_poor',
  amount,
  sentAt: confirmedAt,
  confirmedAt,
});

function evidence(changed: Partial<AdmissionEvidence>): AdmissionEvidence {
  const costOf = ({ status }: SeenCall) => (status === 200 ? cost : 0);
  return {
    calls: [],
    added: [],
    costOf,
    ends: [],
    disturbances: [],
    skews: [],
    stops: [],
    slowness: () => 1,
    ...changed,
  };
}

const away = { from: 10_000, to: 12_000, once: false };
const killed = { pid: 7, at: 10_100, code: null, signal: 'SIGKILL' } as const;

describe('the check of answers in the fault suite', () => {
  const faultsOf = (changed: Partial<SeenCall>, beside: Partial<AdmissionEvidence> = {}) =>
    answerFaults(callAt(10_000, changed), evidence(beside), bounds);

  it('reports 400, 401, 403, 404 and 500, whatever is broken', () => {
    for (const status of [400, 401, 403, 404, 500]) {
      expect(faultsOf({ status }, { disturbances: [away] }), String(status)).to.have.length(1);
    }
  });

  it('reports an answer after more than five seconds, unless its process was stopped', () => {
    expect(faultsOf({ endedAt: 15_000 }, { disturbances: [away] })).to.deep.equal([]);
    expect(faultsOf({ endedAt: 18_000 }, { disturbances: [away] })).to.have.length(1);
    const stop = { pid: 7, from: 10_500, to: 16_000 };
    expect(faultsOf({ endedAt: 18_000 }, { disturbances: [away], stops: [stop] }), 'stopped').to.deep.equal([]);
    expect(faultsOf({ endedAt: 18_000 }, { disturbances: [away], stops: [{ ...stop, pid: 8 }] })).to.have.length(1);
  });

  it('reports a 503 or a broken answer, unless something is broken or the process ends', () => {
    for (const broken of [{ status: 503 }, { status: 0, isWhole: false }, { status: 200, isWhole: false }]) {
      expect(faultsOf(broken)).to.have.length(1);
      expect(faultsOf(broken, { disturbances: [away] })).to.deep.equal([]);
      expect(faultsOf(broken, { ends: [killed] })).to.deep.equal([]);
      expect(faultsOf(broken, { ends: [{ ...killed, at: 60_000 }] })).to.have.length(1);
      expect(faultsOf(broken, { slowness: () => 3 })).to.have.length(1);
    }
    const unavailable = { status: 503, code: 'database_unavailable' };
    expect(faultsOf(unavailable)).to.have.length(1);
    expect(faultsOf(unavailable, { slowness: () => 3 }), 'on a machine that is a third as fast').to.deep.equal([]);
  });

  it('reports a refusal of an account that certainly has credit', () => {
    const refused = { status: 402 };
    expect(faultsOf({ ...refused, account: 'rich' }, { disturbances: [away] })).to.have.length(1);
    expect(faultsOf({ account: 'rich', status: 429 })).to.have.length(1);
    expect(faultsOf(refused)).to.deep.equal([]);
    expect(faultsOf(refused, { added: [added(1_000, 150)] })).to.have.length(1);
    expect(faultsOf(refused, { added: [added(1_000, 149)] }), 'less than a call').to.deep.equal([]);
    expect(faultsOf(refused, { added: [added(9_900, 150)] }), 'just added').to.deep.equal([]);
    const underWay = { added: [added(1_000, 250)], calls: [callAt(9_990)] };
    expect(faultsOf(refused, underWay), 'reserved for another').to.deep.equal([]);
    expect(faultsOf(refused, { added: [added(1_000, 200)], calls: [callAt(5_000)] }), 'spent').to.deep.equal([]);
  });

  it('reports a refusal of an account that has calls left in its minute', () => {
    const refused = { account: 'limited', status: 429 } as const;
    const before = [1_000, 2_000, 3_000].map((sentAt) => callAt(sentAt, { account: 'limited' }));
    expect(faultsOf(refused, { calls: before })).to.deep.equal([]);
    expect(faultsOf(refused, { calls: before.slice(1) })).to.have.length(1);
    const skewedBy = (off: number) => ({
      calls: [...before.slice(1), callAt(-299_000, { account: 'limited' })],
      skews: [{ from: -300_000, to: -297_000, by: [off, -off] }],
    });
    expect(faultsOf(refused, skewedBy(300_000)), 'counted in advance').to.deep.equal([]);
    expect(faultsOf(refused, skewedBy(240_000)), 'counted in another').to.have.length(1);
  });
});

describe('the check of overdrafts and limits in the fault suite', () => {
  it('allows no overdraft, but for what a process could not record that was cut off or killed', () => {
    const serve = (count: number) => Array.from({ length: count }, (_, i) => callAt(1_000 + i));
    expect(overdraftFaults(evidence({ calls: serve(2), added: [added(0, 200)] }), bounds)).to.deep.equal([]);
    expect(overdraftFaults(evidence({ calls: serve(2), added: [added(0, 199)] }), bounds)).to.have.length(1);
    const cutOff = { calls: serve(2), added: [added(0, 50)], disturbances: [away] };
    expect(overdraftFaults(evidence(cutOff), bounds)).to.deep.equal([]);
    expect(overdraftFaults(evidence({ ...cutOff, calls: serve(3) }), bounds)).to.have.length(1);
  });

  it('allows what others admit between two exchanges, and the limit again for a process that counts alone', () => {
    const serve = (count: number) =>
      Array.from({ length: count }, (_, i) => callAt(1_000 + i, { account: 'limited', pid: i % 2 }));
    expect(limitFaults(evidence({ calls: serve(9) }), bounds.limit)).to.deep.equal([]);
    expect(limitFaults(evidence({ calls: serve(10) }), bounds.limit)).to.have.length(1);
    expect(limitFaults(evidence({ calls: serve(12), disturbances: [away] }), bounds.limit)).to.deep.equal([]);
    expect(limitFaults(evidence({ calls: serve(13), disturbances: [away] }), bounds.limit)).to.have.length(1);
  });
});
