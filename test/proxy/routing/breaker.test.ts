import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import type { OutboundResponse } from '../../../src/outbound/exchange.ts';
import { outboundError } from '../../../src/outbound/outbound-error.ts';
import { Breaker, Circuit } from '../../../src/proxy/upstream-state.ts';

describe('The breaker of an upstream', () => {
  const answer = (status: number) => async () => ({ status }) as OutboundResponse;
  const fail = (code: Parameters<typeof outboundError>[0]) => async (): Promise<OutboundResponse> => {
    throw outboundError(code);
  };

  /** Makes a call through the breaker; answers `undefined` where it is kept away. */
  async function run(breaker: Breaker, userId: string, call: () => Promise<OutboundResponse>) {
    const passed = breaker.begin(userId);
    if (!passed) return undefined;
    const result = await call().then(
      (response) => ({ response }),
      (error: unknown) => ({ error }),
    );
    passed.ended(result);
    return result;
  }

  async function isKeptAway(running: ReturnType<typeof run>): Promise<boolean> {
    return (await running) === undefined;
  }

  for (const [what, call] of [
    ['answered with an error of the server', answer(500)],
    ['not answered in time', fail('timeout')],
    ['broken off', fail('reset')],
  ] as const) {
    it(`blocks an account whose requests are ${what} five times, and no other account`, async () => {
      const breaker = new Breaker();
      for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_bad', call);

      expect(await isKeptAway(run(breaker, 'usr_bad', answer(200)))).to.equal(true);
      expect(await isKeptAway(run(breaker, 'usr_2', answer(200)))).to.equal(false);
    });
  }

  it('blocks every account when no connection can be made, whoever asked', async () => {
    const breaker = new Breaker();
    for (let i = 0; i < 5; i += 1) await run(breaker, `usr_${i}`, fail('connect_refused'));

    expect(await isKeptAway(run(breaker, 'usr_new', answer(200)))).to.equal(true);
  });

  it('gives every passed call its own answer, however many fail at the same time', async () => {
    const breaker = new Breaker();
    const calls = Array.from({ length: 12 }, (_, i) =>
      run(breaker, 'usr_1', async () => {
        for (let turn = 0; turn < i; turn += 1) await nextTurn();
        return { status: 500 } as OutboundResponse;
      }),
    );

    const statuses = (await Promise.all(calls)).map(
      (result) => result && 'response' in result && result.response.status,
    );
    expect(statuses).to.deep.equal(Array(12).fill(500));
    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(true);
  });

  it('counts only failures in a row', async () => {
    const breaker = new Breaker();
    for (let i = 0; i < 12; i += 1) await run(breaker, 'usr_1', answer(i % 4 === 3 ? 200 : 500));

    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(false);
  });

  it('lets one call of a blocked account try again after a second, and keeps the others away meanwhile', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', answer(500));
    now = 1_000;
    const trial = breaker.begin('usr_1');
    expect([typeof trial, breaker.begin('usr_1')]).to.deep.equal(['object', undefined]);
    expect(await isKeptAway(run(breaker, 'usr_2', answer(200)))).to.equal(false);
    trial?.ended({ response: { status: 200 } });
    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(false);
  });

  it('is closed by any response when it was open because of connections, which it says', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', fail('dns_failed'));
    expect(breaker.state).to.equal('open');
    now = 1_000;
    const trial = breaker.begin('usr_2');
    expect(breaker.state).to.equal('half_open');
    trial?.ended({ response: { status: 500 } });
    expect(breaker.state).to.equal('closed');
  });

  it('is closed by a connection when it was open because of connections, however long the answer takes', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', fail('connect_refused'));
    now = 1_000;
    const trial = breaker.begin('usr_2');
    expect(await isKeptAway(run(breaker, 'usr_3', answer(200)))).to.equal(true);
    trial?.connected();
    expect(breaker.state).to.equal('closed');
    expect(await isKeptAway(run(breaker, 'usr_3', answer(200)))).to.equal(false);
    trial?.ended({ error: outboundError('timeout') });
    expect(breaker.state).to.equal('closed');
  });

  it('is not closed for an account by a connection when it was open because of its requests', async () => {
    let now = 0;
    const breaker = new Breaker(() => now);
    for (let i = 0; i < 5; i += 1) await run(breaker, 'usr_1', answer(500));
    now = 1_000;
    breaker.begin('usr_1')?.connected();
    expect(await isKeptAway(run(breaker, 'usr_1', answer(200)))).to.equal(true);
  });
});

describe('a circuit', () => {
  /** What happens, one letter each: a success or failure, one after the beginning (end), a call that says nothing, or a wait in seconds. */
  const table: [events: string, state: string, meaning: string][] = [
    ['FFFF', 'closed', 'four failures'],
    ['FFFFF', 'open', 'five failures'],
    ['FFFFSF', 'closed', 'a success between failures'],
    ['FFFFNF', 'open', 'a call between failures that says nothing of the upstream'],
    ['LLLLL', 'open', 'five failures after a good beginning'],
    ['SLSLSLSLSL', 'open', 'the good beginnings of answers that fail later'],
    ['SLSLSLSLWL', 'closed', 'an answer that has ended well between them'],
    ['FFFFW', 'closed', 'an end that is no success where no failure came late'],
    ['FFFFWF', 'open', 'the same, and one more failure'],
    ['FFFFF1S', 'closed', 'a success of the call that tries again'],
    ['FFFFF1SFFFF', 'closed', 'four failures after that'],
    ['FFFFF1F', 'open', 'a failure of that call'],
    ['FFFFF1N', 'closed', 'that call says nothing'],
    ['FFFFF1NF', 'open', 'and the next one fails'],
  ];
  for (const [events, state, meaning] of table) {
    it(`is ${state} after ${meaning} (${events})`, () => {
      const circuit = new Circuit();
      let now = 0;
      for (const event of events) {
        if (/\d/.test(event)) now += 1_000 * Number(event);
        else if (event === 'L' || event === 'W') circuit.countEnd(event === 'L', now);
        else {
          expect(circuit.isPassable(now)).to.equal(true);
          const outcome = ({ S: 'success', F: 'failure', N: 'neither' } as const)[event as 'S' | 'F' | 'N'];
          circuit.count(outcome, circuit.begin(), now);
        }
      }
      expect(circuit.state).to.equal(state);
    });
  }

  it('stays open for 1 s, and after each failed trial twice as long, up to 30 s', () => {
    const circuit = new Circuit();
    let now = 0;
    for (let i = 0; i < 5; i += 1) circuit.count('failure', circuit.begin(), now);
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      expect(circuit.isPassable(now + seconds * 1_000 - 1)).to.equal(false);
      now += seconds * 1_000;
      expect(circuit.isPassable(now)).to.equal(true);
      const isTrial = circuit.begin();
      expect([isTrial, circuit.isPassable(now)], 'one call at a time').to.deep.equal([true, false]);
      circuit.count('failure', isTrial, now);
    }
    now += 30_000;
    circuit.count('success', circuit.begin(), now);
    for (let i = 0; i < 5; i += 1) circuit.count('failure', circuit.begin(), now);
    expect(circuit.isPassable(now + 1_000), 'from the beginning').to.equal(true);
  });

  it('does not count what began before it opened', () => {
    const circuit = new Circuit();
    for (let i = 0; i < 6; i += 1) circuit.begin();
    for (let i = 0; i < 5; i += 1) circuit.count('failure', false, 0);
    circuit.count('success', false, 0);
    expect(circuit.state).to.equal('open');
    circuit.begin();
    circuit.count('failure', false, 1_000);
    circuit.countEnd(false, 1_000);
    expect(circuit.state).to.equal('half_open');
  });
});
