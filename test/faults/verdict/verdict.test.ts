import { expect } from 'chai';
import type { Arrival } from '../receivers.ts';
import { disagreements, isLost, isStuck, unseen } from './verdict.ts';

type DeliveryDocument = Parameters<typeof isLost>[0];
type AttemptRecord = DeliveryDocument['attempts'][number];

const arrival = (at: number, status = 200): Arrival => ({
  webhook: 'good',
  eventId: 'evt_1',
  at,
  answeredAt: at + 5,
  status,
  signatureRight: true,
  bodyHash: '',
});
const attempt = (number: number, at: number, status?: number, code?: AttemptRecord['code']): AttemptRecord => ({
  number,
  startedAt: new Date(at),
  durationMs: 10,
  response: '',
  ...(status !== undefined && { status }),
  ...(code !== undefined && { code }),
});
const delivery = (fields: Partial<DeliveryDocument>) =>
  ({ state: 'delivered', lease: null, attempts: [], ...fields }) as DeliveryDocument;
const ended = (attempts: AttemptRecord[], at: number) => delivery({ attempts, endedAt: new Date(at) });

describe('the verdict on a delivery', () => {
  it('finds nothing when its receiver gave each recorded answer', () => {
    const attempts = [attempt(1, 10_000, 500), attempt(2, 20_000, 200)];
    expect(disagreements(ended(attempts, 20_010), [arrival(10_003, 500), arrival(20_003)], [])).to.deep.equal([]);
  });

  it('finds recorded attempts that its receiver did not see', () => {
    const came = [arrival(10_003, 500)];
    const twice = ended([attempt(1, 10_000, 500), attempt(2, 10_100, 500)], 10_110);
    expect(unseen(twice, came).map(({ number }) => number)).to.deep.equal([2]);
    expect(unseen(ended([attempt(1, 10_000, 200)], 10_010), came)).to.have.length(1);
    expect(unseen(ended([attempt(1, 90_000, 500)], 90_010), came)).to.have.length(1);
    // sent long after it was claimed, but before it ended
    expect(unseen(ended([attempt(1, 6_000, 500)], 10_010), came)).to.have.length(0);
    expect(unseen(ended([attempt(1, 1_000, 500), attempt(2, 5_000, 200)], 5_010), came)).to.have.length(2);
    const found = disagreements(ended([attempt(1, 10_000, 200)], 10_010), came, []);
    expect(found).to.deep.equal(['attempt 1 is recorded with 200, which its receiver did not see']);
  });

  it('finds attempts that were recorded without the answer that their receiver gave', () => {
    const found = disagreements(
      ended([attempt(1, 10_000, undefined, 'timeout'), attempt(2, 20_000, 200)], 20_010),
      [arrival(10_003), arrival(20_003)],
      [],
    );
    expect(found).to.deep.equal(['attempt 1 is recorded with timeout']);
  });

  it('finds attempts after a recorded 2xx, and a success without a recorded 2xx', () => {
    const late = disagreements(ended([attempt(1, 10_000, 200)], 10_010), [arrival(10_003), arrival(10_400)], []);
    expect(late).to.deep.equal(['it was sent after a recorded 2xx']);
    const lagging = ended([attempt(1, 10_000, 200)], 10_010);
    expect(disagreements(lagging, [arrival(10_200)], []), 'by a clock that lags').to.deep.equal([]);
    expect(disagreements(ended([], 10_010), [], [])).to.deep.equal(['it ended without a recorded 2xx']);
    const failed = [attempt(1, 10_000, 500)];
    expect(disagreements(ended(failed, 10_010), [arrival(10_003, 500)], [])).to.deep.equal([
      'it ended without a recorded 2xx',
    ]);
  });

  it("allows for the error of a gateway's clock when the first write ended the delivery", () => {
    const first = { ...ended([attempt(1, 10_000, 200)], 10_010), starts: 0 };
    expect(disagreements(first, [arrival(10_400)], [])).to.deep.equal([]);
    const late = disagreements(first, [arrival(10_003), arrival(11_100)], []);
    expect(late).to.deep.equal(['it was sent after a recorded 2xx']);
  });

  it('allows a repeated attempt to be recorded after the 2xx of the first when a fault explains it', () => {
    const again = ended([attempt(1, 10_000, 200), attempt(2, 15_000, 500)], 15_010);
    const came = [arrival(10_003), arrival(15_003, 500)];
    expect(disagreements(again, came, [{ from: 9_000, to: 11_000, once: false }])).to.deep.equal([]);
    expect(disagreements(again, came, [])).to.deep.equal(['it ended without a recorded 2xx']);
  });

  it('allows an attempt that was claimed again before a late 2xx was recorded, but none much later', () => {
    const recordedLate = ended([attempt(1, 10_000, 200)], 70_000);
    expect(disagreements(recordedLate, [arrival(10_003), arrival(71_000)], [])).to.deep.equal([]);
    const later = disagreements(recordedLate, [arrival(10_003), arrival(74_000)], []);
    expect(later).to.deep.equal(['it was sent after a recorded 2xx']);
  });

  it('finds a delivery recorded as failed that its receiver accepted, unless a fault explains that', () => {
    const attempts = [1, 2, 3, 4, 5, 6].map((number) => attempt(number, number * 20_000, 500));
    const came = [...attempts.map(({ startedAt }) => arrival(startedAt.getTime() + 3, 500)), arrival(50_000)];
    const failed = delivery({ state: 'failed', attempts });
    expect(disagreements(failed, came, [])).to.deep.equal(['it is recorded as failed, and its receiver accepted it']);
    expect(disagreements(failed, came, [{ from: 49_000, to: 51_000, once: false }])).to.deep.equal([]);
  });

  it('is "lost" when it ended without being accepted, and "stuck" when it has not ended', () => {
    expect(isLost(delivery({ state: 'canceled' }), [])).to.equal(true);
    expect(isLost(delivery({ state: 'failed' }), [])).to.equal(true);
    expect(isLost(delivery({}), [arrival(1, 500)])).to.equal(true);
    expect(isLost(delivery({}), [arrival(1)])).to.equal(false);
    expect(isStuck(delivery({}))).to.equal(false);
    expect(isStuck(delivery({ state: 'pending' }))).to.equal(true);
    expect(isStuck(delivery({ lease: { owner: 'w', token: 't', startedAt: new Date(0) } }))).to.equal(true);
  });
});
