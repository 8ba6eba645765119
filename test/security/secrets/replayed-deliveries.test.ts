import { expect } from 'chai';
import express from 'express';
import {
  type ReceiverError,
  type WebhookEvent,
  type WebhookReceiverOptions,
  webhookReceiver,
} from '../../../src/receiver/index.ts';
import { listen } from '../../support/listen.ts';
import { signBody, standardWebhookSignature } from '../../support/signature.ts';

const secret = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const body = Buffer.from('{"id":"evt_1","type":"credits.low","data":{}}');
type Headers = Record<string, string>;

/** The headers of a delivery that was made some seconds ago. */
function headersFrom(secondsAgo: number, by = secret): Headers {
  const timestamp = String(Math.floor(Date.now() / 1_000 - secondsAgo));
  return {
    'content-type': 'application/json',
    'user-agent': 'test',
    'webhook-id': 'evt_1',
    'webhook-timestamp': timestamp,
    'x-service-signature': signBody(body, secret),
    'webhook-signature': standardWebhookSignature('evt_1', timestamp, body, by),
  };
}

const signed = (timestamp: string, content: Buffer | string = body) =>
  standardWebhookSignature('evt_1', timestamp, content, secret);

const without = (headers: Headers, ...names: string[]) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));

const standardHeaders = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];

describe('A recorded delivery that is sent again', () => {
  let close: () => Promise<void>;
  afterEach(() => close());

  async function receive(headers: Headers, options: Partial<WebhookReceiverOptions> = {}) {
    const events: WebhookEvent[] = [];
    const reasons: ReceiverError[] = [];
    const receiver = webhookReceiver({
      secret,
      onEvent: (event) => events.push(event),
      onError: (error) => reasons.push(error as ReceiverError),
      ...options,
    });
    const server = await listen(express().post('/', receiver));
    close = server.close;
    const answer = await fetch(server.url, { method: 'POST', body: new Uint8Array(body), headers });
    return { status: answer.status, body: (await answer.json()) as Headers, handled: events.length, reasons };
  }

  const now = () => String(Math.floor(Date.now() / 1_000));
  const accepted: [what: string, headers: () => Headers, options?: Partial<WebhookReceiverOptions>][] = [
    ['at once', () => headersFrom(0)],
    ['within five minutes', () => headersFrom(290)],
    ['from a clock that is a little ahead', () => headersFrom(-290)],
    ['within the tolerance that the receiver chose', () => headersFrom(900), { tolerance: 1_000 }],
    [
      'with one right signature of several',
      () => ({
        ...headersFrom(0),
        'webhook-signature': `v1a,AAAA v1,AAAA ${headersFrom(0)['webhook-signature']} v2,BBBB`,
      }),
    ],
    ['signed with the second of two secrets', () => headersFrom(0), { secret: ['another-secret-0192', secret] }],
    ['without the headers, where they are not required', () => without(headersFrom(0), ...standardHeaders)],
  ];
  for (const [what, headers, options] of accepted) {
    it(`is accepted ${what}`, async () => {
      expect(await receive(headers(), options)).to.deep.equal({
        status: 200,
        body: { received: true },
        handled: 1,
        reasons: [],
      });
    });
  }

  const invalid = /^no_secret_matched: webhook-signature was not made with the secret/;
  const refused: [what: string, headers: () => Headers, reason: RegExp, options?: Partial<WebhookReceiverOptions>][] = [
    [
      'after five minutes',
      () => headersFrom(310),
      /^timestamp_too_old: webhook-timestamp is more than 300 seconds in the past/,
    ],
    ['years later', () => headersFrom(1e8), /^timestamp_too_old/],
    [
      'with a timestamp of the future',
      () => headersFrom(-310),
      /^timestamp_in_future: webhook-timestamp is more than 300 seconds in the future/,
    ],
    ['after the tolerance that the receiver chose', () => headersFrom(20), /more than 10 seconds/, { tolerance: 10 }],
    [
      'with a fresh timestamp that is not signed',
      () => ({ ...headersFrom(1_000), 'webhook-timestamp': now() }),
      invalid,
    ],
    ['under another id', () => ({ ...headersFrom(0), 'webhook-id': 'evt_2' }), invalid],
    [
      'with a signature of another body',
      () => ({ ...headersFrom(0), 'webhook-signature': signed(now(), 'x') }),
      invalid,
    ],
    ['signed with another secret', () => headersFrom(0, 'another-secret-0192'), invalid],
    [
      'signed in another version',
      () => ({
        ...headersFrom(0),
        'webhook-signature': (headersFrom(0)['webhook-signature'] ?? '').replace('v1,', 'v2,'),
      }),
      /^header_malformed: webhook-signature has no signature that begins with v1,$/,
    ],
    [
      'with a timestamp that is no number',
      () => ({
        ...headersFrom(0),
        'webhook-timestamp': '1e9',
        'webhook-signature': signed('1e9'),
      }),
      /^header_malformed: webhook-timestamp is not a number of seconds$/,
    ],
    ...standardHeaders.map((name): [string, () => Headers, RegExp] => [
      `without ${name} alone`,
      () => without(headersFrom(1_000), name),
      new RegExp(`^header_missing: the delivery has no ${name}$`),
    ]),
    [
      'without its timestamp, where that is required',
      () => without(headersFrom(1_000), ...standardHeaders),
      /^header_missing: the delivery has no webhook-id, webhook-timestamp, webhook-signature$/,
      { requireTimestamp: true },
    ],
    [
      'with a right webhook-signature and a wrong x-service-signature',
      () => ({ ...headersFrom(0), 'x-service-signature': `sha256=${'0'.repeat(64)}` }),
      /^no_secret_matched: x-service-signature /,
    ],
  ];
  for (const [what, headers, reason, options] of refused) {
    it(`is answered 401 ${what}, and only the owner is told why`, async () => {
      const { reasons, ...answer } = await receive(headers(), options);
      expect(answer).to.deep.equal({ status: 401, body: { error: 'the signature is invalid' }, handled: 0 });
      expect(reasons.map(({ code, message }) => `${code}: ${message}`).join()).to.match(reason);
    });
  }

  it('cannot be let through by wrong options, which throw a TypeError', () => {
    close = async () => {};
    for (const tolerance of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 'soon' as never]) {
      expect(() => webhookReceiver({ secret, onEvent() {}, tolerance })).to.throw(TypeError, 'tolerance');
    }
    expect(() => webhookReceiver({ secret, onEvent() {}, requireTimestamp: 'no' as never })).to.throw(
      TypeError,
      'requireTimestamp',
    );
  });
});
