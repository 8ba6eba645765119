import { mock } from 'node:test';
import { expect } from 'chai';
import type { CallDeadline } from '../../../src/outbound/deadline.ts';
import type { OutboundResponse } from '../../../src/outbound/exchange.ts';
import { OutboundError } from '../../../src/outbound/outbound-error.ts';
import { beginsAsEvents, peek } from '../../../src/proxy/answer-body.ts';
import { endpoints } from '../../../src/proxy/endpoint.ts';
import { inspectResponse } from '../../../src/proxy/inspect-answer.ts';
import { sentBody } from '../../support/body-sinks.ts';

const deadline = { arm() {}, disarm() {}, reset() {} } as unknown as CallDeadline;
const { result } = endpoints.createChatCompletion;
const expected = { deadline, betweenChunks: 1_000, answers: undefined, result, stream: false };

/** @param whole the body; without it, no byte of it comes */
function answerOf(whole?: string): OutboundResponse {
  const data = sentBody();
  if (whole !== undefined) {
    data.push(Buffer.from(whole));
    data.settle('end');
  }
  return { status: 200, statusText: 'OK', headers: { 'content-type': 'application/json' }, data };
}

describe('the beginning of an answer', () => {
  afterEach(() => mock.timers.reset());

  it('says of a whole body whether it is an error, so that nothing looks for one again', async () => {
    expect(await inspectResponse(answerOf('{"choices":[{}]}'), expected)).to.include({ isUndecided: false });
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

  it('ends with its body for a client that takes none of it, so that no call waits for one that reads nothing', async () => {
    const data = sentBody();
    data.push(Buffer.from('data: {'));
    await peek(data, () => true, expected);
    data.push(Buffer.from('}\n\n'));
    let taken = '';
    let failure: OutboundError | undefined;
    data.flowTo({
      onChunk(chunk) {
        taken += chunk;
        return false;
      },
      onEnd() {},
      onError(error) {
        failure = error;
      },
    });
    data.settle(new OutboundError('timeout', 'the response did not come in time'));
    expect([taken, failure?.code]).to.deep.equal(['data: {}\n\n', 'timeout']);
  });

  it('tells that it is a stream, even if the body has broken off since', async () => {
    const data = sentBody();
    data.push(Buffer.from('data: {'));
    data.settle(new OutboundError('reset', 'the connection was closed'));
    expect(await peek(data, (start) => beginsAsEvents(start.bytes()), expected)).to.equal(true);
  });
});

describe('an answer without a content type', () => {
  for (const [bytes, isEvents] of [
    ['data: 1\n\n', true],
    ['data:', true],
    ['event: a\n', true],
    ['id: 1\n', true],
    ['retry: 5\n', true],
    [':\n', true],
    ['\u00ef\u00bb\u00bfdata: 1', true],
    ['\r\n\n\ndata: 1', true],
    ['', undefined],
    ['\n', undefined],
    ['\u00ef', undefined],
    ['\u00ef\u00bb', undefined],
    ['ev', undefined],
    ['\n'.repeat(2_000), false],
    ['{"a":1}', false],
    ['date', false],
    [' data: 1', false],
  ] as const) {
    it(`${JSON.stringify(bytes.slice(0, 20))} begins an event stream: ${isEvents ?? 'too early to say'}`, () => {
      expect(beginsAsEvents(Buffer.from(bytes, 'latin1'))).to.equal(isEvents);
    });
  }
});
