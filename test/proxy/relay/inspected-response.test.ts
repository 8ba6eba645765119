import { mock } from 'node:test';
import { expect } from 'chai';
import type { BodySink } from '../../../src/outbound/exchange.ts';
import type { DecodedResponse } from '../../../src/proxy/answer-body.ts';
import type { CallDeadline } from '../../../src/proxy/call-deadline.ts';
import { inspectResponse } from '../../../src/proxy/inspect-answer.ts';

const deadline = { arm() {}, disarm() {}, reset() {} } as unknown as CallDeadline;
const expected = { deadline, betweenChunks: 1_000, answers: undefined, stream: false };

/** @param whole the body; without it, no byte of it comes */
function answerOf(whole?: string): DecodedResponse {
  function flowTo(sink: BodySink): void {
    if (whole === undefined) return;
    sink.onChunk(Buffer.from(whole));
    sink.onEnd();
  }
  const data = { flowTo, resume() {}, destroy() {} };
  return { status: 200, headers: { 'content-type': 'application/json' }, data } as unknown as DecodedResponse;
}

describe('the beginning of an answer', () => {
  afterEach(() => mock.timers.reset());

  it('says of a whole body whether it is an error, so that nothing looks for one again', async () => {
    expect(await inspectResponse(answerOf('{"choices":[]}'), expected)).to.include({ isUndecided: false });
    const failed = await inspectResponse(answerOf('{"error":{"code":429}}'), expected);
    expect(failed.isUndecided).to.equal(false);
    expect(failed.errorInside).to.deep.equal({ status: 429, blamesRequest: false });
  });

  it('is undecided after 5 seconds, so that an error is looked for when the body is whole', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const answer = inspectResponse(answerOf(), expected);
    mock.timers.tick(5_000);
    expect(await answer)
      .to.include({ isUndecided: true })
      .and.not.have.property('errorInside');
  });
});
