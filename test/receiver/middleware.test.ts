import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { type RequestListener, request } from 'node:http';
import { connect } from 'node:net';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import express5 from 'express';
import express4 from 'express4';
import { keepRawBody } from '../../src/index.ts';
import {
  ReceiverError,
  verifySignature,
  type WebhookEvent,
  type WebhookReceiverOptions,
  webhookReceiver,
} from '../../src/receiver/index.ts';
import { type Listening, listen } from '../support/listen.ts';

const secret = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
/** Spaces and a number that JSON.parse cannot keep: written again it would have other bytes. */
const body =
  '{ "id": "evt_1", "type": "credits.low", "created": "2026-01-01T00:00:00.000Z",  "data": {"user_id":"usr_1","credits_remaining":5.0,"threshold":10} }';
const sign = (raw: string | Buffer, key = secret) => `sha256=${createHmac('sha256', key).update(raw).digest('hex')}`;

let server: Listening | undefined;

/** Starts a server for one test; resolves to the address that it takes webhooks at. */
async function serve(app: RequestListener): Promise<string> {
  server = await listen(app);
  return `${server.url}/webhooks`;
}

async function deliver(url: string, raw: string | Buffer = body, headers: Record<string, string> = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    body: new Uint8Array(Buffer.from(raw)),
    headers: { 'content-type': 'application/json', 'x-service-signature': sign(raw), ...headers },
  });
  return {
    status: answer.status,
    type: answer.headers.get('content-type'),
    body: (await answer.json()) as Record<string, unknown>,
  };
}

/** A receiver that remembers what it was given. */
function remembering(options: Partial<WebhookReceiverOptions> = {}) {
  const events: WebhookEvent[] = [];
  const errors: unknown[] = [];
  const receiver = webhookReceiver({
    secret,
    onEvent: (event) => events.push(event),
    onError: (error) => errors.push(error),
    ...options,
  });
  return { events, errors, receiver };
}

afterEach(async () => {
  await server?.close();
  server = undefined;
});

for (const [name, express] of [
  ['Express 4', express4 as unknown as typeof express5],
  ['Express 5', express5],
] as const) {
  describe(`a webhook receiver in ${name}`, () => {
    const hosts: [what: string, before: () => express5.RequestHandler[]][] = [
      ['nothing before it', () => []],
      ['express.raw() before it', () => [express.raw({ type: '*/*' })]],
      ['express.text() before it', () => [express.text({ type: '*/*' })]],
      ['express.json() that keeps the bytes by keepRawBody', () => [express.json({ verify: keepRawBody })]],
      [
        'express.json() that keeps the bytes as req.rawBody',
        () => [express.json({ verify: (req, _res, bytes) => Object.assign(req, { rawBody: bytes }) })],
      ],
      [
        'express.json() that keeps the text as req.rawBody',
        () => [express.json({ verify: (req, _res, bytes) => Object.assign(req, { rawBody: bytes.toString() }) })],
      ],
      [
        'express.json() that keeps bytes of another realm as req.rawBody',
        () => [
          express.json({
            verify: (req, _res, bytes) => Object.assign(req, { rawBody: new (runInNewContext('Uint8Array'))(bytes) }),
          }),
        ],
      ],
      ['express.json() for another content type', () => [express.json({ type: 'application/vnd.other+json' })]],
    ];
    for (const [what, before] of hosts) {
      it(`passes a signed event to the handler and refuses a forged one, with ${what}`, async () => {
        const { events, receiver } = remembering();
        const url = await serve(
          express()
            .use(...[...before(), (_q: unknown, _s: unknown, next: () => void) => next()])
            .post('/webhooks', receiver),
        );
        expect(await deliver(url)).to.deep.equal({ status: 200, type: 'application/json', body: { received: true } });
        expect(events).to.deep.equal([JSON.parse(body)]);
        const forged = await deliver(url, body, { 'x-service-signature': sign(`${body} `) });
        expect(forged).to.include({ status: 401 });
        expect(events).to.have.length(1);
      });
    }

    it('says how to keep the raw body when another parser has read it', async () => {
      const { events, errors, receiver } = remembering();
      const url = await serve(express().use(express.json()).post('/webhooks', receiver));
      const answer = await deliver(url);
      expect(answer.status).to.equal(500);
      expect(answer.body.error).to.include('express.json({ verify').and.include('before express.json()');
      expect(events).to.deep.equal([]);
      expect(errors).to.have.length(1);
      expect(errors[0]).to.be.instanceOf(ReceiverError).and.include({ code: 'body_parsed', status: 500 });
    });

    it('answers 401 without a signature, and does not call the handler', async () => {
      const { events, errors, receiver } = remembering();
      const url = await serve(express().post('/webhooks', receiver));
      const answer = await fetch(url, { method: 'POST', body });
      expect(answer.status).to.equal(401);
      expect(await answer.json()).to.deep.equal({ error: 'the signature is invalid' });
      expect(events).to.deep.equal([]);
      expect(errors).to.have.length(1);
      expect(errors[0]).to.include({ code: 'header_missing', message: 'the request has no x-service-signature' });
    });

    it('answers 500 when the handler throws or rejects, without its message', async () => {
      const handlers = [
        () => {
          throw new Error('password=1234');
        },
        async () => {
          throw new Error('password=1234');
        },
      ];
      for (const onEvent of handlers) {
        const { errors, receiver } = remembering({ onEvent });
        const url = await serve(express().post('/webhooks', receiver));
        const answer = await deliver(url);
        expect(answer.status).to.equal(500);
        expect(answer.body).to.deep.equal({ error: 'the handler failed' });
        expect(errors).to.have.length(1);
        expect(errors[0]).to.have.property('message', 'password=1234');
        await server?.close();
      }
    });

    for (const [how, fail] of [
      [
        'throws',
        () => {
          throw new Error('second');
        },
      ],
      ['rejects with', () => Promise.reject(new Error('second'))],
    ] as const) {
      it(`passes what onError ${how} on to the error handler of the host`, async () => {
        const receiver = webhookReceiver({ secret, onEvent: () => Promise.reject(new Error('first')), onError: fail });
        const seen: unknown[] = [];
        const app = express().post('/webhooks', receiver);
        app.use((error: unknown, _req: unknown, res: express5.Response, _next: unknown) => {
          seen.push(error);
          res.status(500).json({ error: 'seen' });
        });
        const answer = await deliver(await serve(app));
        expect(answer.body).to.deep.equal({ error: 'seen' });
        expect(seen[0]).to.have.property('message', 'second');
      });
    }
  });
}

describe('a webhook receiver', () => {
  it('waits for the handler before it answers', async () => {
    let handled = false;
    const { receiver } = remembering({
      onEvent: async () => {
        await new Promise((resolve) => setTimeout(resolve, 20));
        handled = true;
      },
    });
    await deliver(await serve(express5().post('/webhooks', receiver)));
    expect(handled).to.equal(true);
  });

  it('accepts any of several secrets while one replaces another', async () => {
    const { receiver } = remembering({ secret: ['new-secret', 'old-secret'] });
    const url = await serve(express5().post('/webhooks', receiver));
    for (const [key, status] of [
      ['new-secret', 200],
      ['old-secret', 200],
      ['other-secret', 401],
    ] as const) {
      expect(await deliver(url, body, { 'x-service-signature': sign(body, key) })).to.include({ status });
    }
  });

  it('answers 413 to a body longer than maxBytes, with or without a Content-Length', async () => {
    const { events, receiver } = remembering({ maxBytes: 64 });
    const url = await serve(express5().post('/webhooks', receiver));
    expect(await deliver(url)).to.deep.include({ status: 413, body: { error: 'the body is larger than 64 bytes' } });

    const chunked = request(url, { method: 'POST', headers: { 'x-service-signature': sign(body) } });
    chunked.write(body.slice(0, 70));
    chunked.end(body.slice(70));
    const [answer] = await once(chunked, 'response');
    expect(answer.statusCode).to.equal(413);
    expect(events).to.deep.equal([]);
    const short = '{"id":"evt_1"}';
    expect(await deliver(url, short)).to.include({ status: 200 });
  });

  it('answers 400 to a signed body that is not JSON, and tells the owner', async () => {
    const { events, errors, receiver } = remembering();
    const url = await serve(express5().post('/webhooks', receiver));
    for (const raw of ['', '{', 'null,', Buffer.from([0xff, 0xfe])]) {
      expect(await deliver(url, raw)).to.deep.include({ status: 400, body: { error: 'the body is not JSON' } });
    }
    expect(events).to.deep.equal([]);
    expect(errors.map((error) => (error as ReceiverError).code)).to.deep.equal(Array(4).fill('body_not_json'));
  });

  it('calls neither the handler nor onError when the sender disconnects inside the body', async () => {
    const { events, errors, receiver } = remembering();
    const left = new Promise<void>((resolve) => {
      void serve((req, res) => {
        req.once('close', () => setTimeout(resolve, 10));
        receiver(req, res, () => {});
      }).then((url) => {
        const socket = connect(Number(new URL(url).port), '127.0.0.1', () => {
          socket.write(
            `POST /webhooks HTTP/1.1\r\nhost: x\r\nx-service-signature: ${sign(body)}\r\ncontent-length: ${body.length}\r\n\r\n${body.slice(0, 20)}`,
            () => socket.destroy(),
          );
        });
      });
    });
    await left;
    expect([...events, ...errors]).to.deep.equal([]);
  });

  it('gives the handler the request, typed as the host types it', async () => {
    let path = '';
    const receiver = webhookReceiver<express5.Request>({
      secret,
      onEvent: (_event, req) => {
        path = req.originalUrl;
      },
    });
    await deliver(await serve(express5().post('/webhooks', receiver)));
    expect(path).to.equal('/webhooks');
  });

  it('narrows an event by its type', () => {
    const describeEvent = (event: WebhookEvent): string => {
      switch (event.type) {
        case 'credits.low':
          return `${event.data.credits_remaining satisfies number} left`;
        case 'payment.completed':
          return `${event.data.payment_id satisfies string} paid`;
        default:
          return event.type;
      }
    };
    expect(describeEvent(JSON.parse(body))).to.equal('5 left');
  });

  for (const [what, header, code, says] of [
    ['by another secret', sign(body, 'another-secret-0192'), 'no_secret_matched', 'was not made with the secret'],
    ['over another body', sign(`${body} `), 'no_secret_matched', 'nothing changes the body'],
    ['in capitals', sign(body).toUpperCase(), 'header_malformed', 'x-service-signature is not sha256='],
    ['in base64', 'v1,C2FVsBQIhrscChlQIMV+b5sSYspob7oD', 'header_malformed', 'x-service-signature is not sha256='],
  ] as const) {
    it(`tells its owner why it refused a delivery that was signed ${what}, and the sender nothing`, async () => {
      const { events, errors, receiver } = remembering();
      const answer = await deliver(await serve(express5().post('/webhooks', receiver)), body, {
        'x-service-signature': header,
      });
      expect(answer).to.deep.include({ status: 401, body: { error: 'the signature is invalid' } });
      expect(events).to.deep.equal([]);
      const [error] = errors as ReceiverError[];
      expect(error).to.be.instanceOf(ReceiverError).and.include({ code, status: 401 });
      expect(error?.message).to.include(says).and.not.include(secret);
    });
  }

  it('tells its owner of a body that is longer than maxBytes', async () => {
    const { errors, receiver } = remembering({ maxBytes: 10 });
    expect(await deliver(await serve(express5().post('/webhooks', receiver)))).to.include({ status: 413 });
    expect(errors[0]).to.include({ code: 'body_too_large' });
  });

  it('writes why it refuses deliveries to the console without onError, once a minute for each reason', async () => {
    const written: unknown[][] = [];
    const { error } = console;
    console.error = (...args) => written.push(args);
    try {
      const url = await serve(express5().post('/webhooks', webhookReceiver({ secret, onEvent() {} })));
      for (let i = 0; i < 3; i += 1) await deliver(url, body, { 'x-service-signature': sign(body, 'another') });
      await fetch(url, { method: 'POST', body });
    } finally {
      console.error = error;
    }
    expect(written.map(([text]) => String(text).slice(0, 60))).to.deep.equal(
      [
        'webhook receiver: refused a delivery (no_secret_matched): x-s',
        'webhook receiver: refused a delivery (header_missing): the r',
      ].map((text) => text.slice(0, 60)),
    );
  });

  for (const [wrong, says] of [
    [`${secret}\n`, 'white space at its beginning or end'],
    [` ${secret}`, 'white space at its beginning or end'],
    [`${secret}\u00a0`, 'white space at its beginning or end'],
    [`"${secret}"`, 'is in quotes'],
    [`'${secret}'`, 'is in quotes'],
    [`“${secret}”`, 'is in quotes'],
    [`v1,${secret}`, 'from whsec_ on'],
  ] as const) {
    it(`cannot be made with the secret ${JSON.stringify(wrong)}, nor can a signature be verified with it`, () => {
      const making = () => webhookReceiver({ secret: wrong, onEvent() {} });
      expect(making).to.throw(TypeError, 'webhookReceiver: secret ').with.property('message').that.includes(says);
      expect(making).to.throw().with.property('message').that.does.not.include(secret);
      expect(() => webhookReceiver({ secret: [secret, wrong], onEvent() {} })).to.throw(TypeError, 'secret[1] ');
      expect(() => verifySignature(body, sign(body), wrong)).to.throw(TypeError, `verifySignature: secret `);
    });
  }

  for (const unset of [undefined, '', [], ['good', ''], [undefined]]) {
    it(`cannot be made with the secret ${JSON.stringify(unset) ?? 'undefined'}`, () => {
      expect(() => webhookReceiver({ secret: unset as string, onEvent() {} })).to.throw(TypeError, /secret/);
    });
  }

  it('cannot be made without a handler', () => {
    expect(() => webhookReceiver({ secret } as WebhookReceiverOptions)).to.throw(TypeError, /onEvent/);
  });
});
