import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { chunks, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';
import { allDialects, endpointCalls, ownedByAll, send } from './endpoint-calls.ts';

describe('bytes through the relay', () => {
  let upstream: ScriptedUpstream;
  let plain: ModelServer;
  let metered: ModelServer;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    plain = await startModelServer({
      upstreams: [
        {
          name: 'plain',
          baseUrl: upstream.baseUrl,
          speaks: allDialects,
          includeUsage: false,
          aliases: { fast: 'vendor/big "1"' },
        },
      ],
      storedObjects: ownedByAll('plain'),
    });
    metered = await startModelServer({ upstreams: [{ name: 'metered', baseUrl: upstream.baseUrl }] });
  });

  after(async () => {
    await plain.close();
    await metered.close();
    await upstream.close();
  });

  async function post(server: ModelServer, body: string | Buffer, path = '/chat/completions') {
    const response = await fetch(server.baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body,
    });
    return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) };
  }

  describe('reach the upstream unchanged', () => {
    const messages = '"messages":[{"role":"user","content":"Hi"}]';
    const image = 'A'.repeat(10 * 1024 * 1024);
    const bodies: [string, string][] = [
      ['64-bit integers', `{"model":"m",${messages},"seed":9223372036854775807,"n":1e2,"t":0.10}`],
      ['key order and white space', `\n{ "z":1,\t"model" :"m" ,\r\n${messages}, "a":[ ] }\n\n`],
      ['unknown keys that are there twice', `{"model":"m",${messages},"x":1,"x":2}`],
      ['escapes', `{"model":"\\u006d",${messages},"u":"\\ud83d\\ude00\\/\\u0000","é":"😀"}`],
      [
        'a 10 MB image',
        `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${image}"}}]}]}`,
      ],
      ['a key named __proto__', `{"model":"m",${messages},"__proto__":{"a":1},"constructor":2}`],
    ];
    for (const [name, body] of bodies) {
      it(`with ${name}`, async () => {
        upstream.script = json(200, { choices: [{}] });
        expect((await post(plain, body)).status).to.equal(200);
        expect(upstream.last.body.equals(Buffer.from(body))).to.equal(true);
        expect(upstream.last.headers['content-length']).to.equal(String(Buffer.byteLength(body)));
      });
    }

    it('with texts and pictures to embed', async () => {
      upstream.script = json(200, { object: 'list', data: [1] });
      const picture = '{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}';
      for (const input of [`[{"type":"text","text":"Hi"}, ${picture}]`, `["Hi", {"content":[${picture}]}]`]) {
        const body = `{"model":"m", "input":${input}}`;
        expect((await post(plain, body, '/embeddings')).status, input).to.equal(200);
        expect(upstream.last.body.toString()).to.equal(body);
      }
    });

    it('but for the name of a model that has an alias', async () => {
      upstream.script = json(200, { choices: [{}] });
      await post(plain, `{"seed":9223372036854775807, "model" : "fa\\u0073t",${messages}}`);
      expect(upstream.last.body.toString()).to.equal(
        `{"seed":9223372036854775807, "model" : "vendor/big \\"1\\"",${messages}}`,
      );
    });

    it('but for the request for usage where a stream is metered', async () => {
      upstream.script = chunks(['data: {"choices":[1]}\n\n', 'data: [DONE]\n\n']);
      await post(metered, `{"model":"m",${messages},"stream":true,"seed":9223372036854775807}`);
      expect(upstream.last.body.toString()).to.equal(
        `{"stream_options":{"include_usage":true},"model":"m",${messages},"stream":true,"seed":9223372036854775807}`,
      );
    });

    it('or are refused with a key that the relay reads and that is there twice', async () => {
      const calls = upstream.requests.length;
      const { status, bytes } = await post(plain, `{"model":"m",${messages},"mod\\u0065l":"other"}`);
      expect(status).to.equal(400);
      expect(JSON.parse(bytes.toString()).error).to.include({ code: 'duplicate_parameter', param: 'model' });
      expect(upstream.requests).to.have.lengthOf(calls);
    });
  });

  describe('reach the client unchanged', () => {
    const big = `data: {"b64_json":"${'A'.repeat(1024 * 1024)}"}\n\n`;
    const streams: [string, string][] = [
      [
        'tool calls',
        'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"{\\"a"}}]}}]}\n\ndata: [DONE]\n\n',
      ],
      [
        'reasoning and vendor fields',
        'data: {"choices":[{"delta":{"reasoning_content":"hm","x_vendor":{"a":1}}}],"x":18446744073709551615}\n\ndata: [DONE]\n\n',
      ],
      ['comments', ': OPENROUTER PROCESSING\n\n:\n\ndata: {"choices":[1]}\n\n: bye\n\ndata: [DONE]\n\n'],
      ['CRLF', 'data: {"choices":[1]}\r\n\r\ndata: [DONE]\r\n\r\n'],
      [
        'named events, ids and retry',
        'event: image_generation.partial_image\nid: 7\nretry: 10\ndata: {"b64_json":"AA","choices":[1]}\n\ndata: [DONE]\n\n',
      ],
      ['data over several lines', 'data: {"choices":\ndata: [1]}\n\ndata: [DONE]\n\n'],
      ['characters of several bytes', 'data: {"choices":[{"content":"é漢😀"}]}\n\ndata: [DONE]\n\n'],
      ['no blank line at the end', 'data: {"choices":[1]}\n\ndata: [DONE]'],
      ['1 MB in one event', `${big}data: [DONE]\n\n`],
      ['null usage', 'data: {"choices":[{"delta":{}}],"usage":null}\n\ndata: [DONE]\n\n'],
    ];
    const ask = '{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}';
    for (const [name, stream] of streams) {
      const bytes = Buffer.from(stream);
      it(`with ${name}`, async () => {
        upstream.script = chunks([bytes]);
        const down = await post(metered, ask);
        expect(down.bytes.equals(bytes)).to.equal(true);
      });

      it(`with ${name}, cut into small pieces`, async () => {
        const step = Math.max(1, Math.floor(bytes.length / 400));
        upstream.script = chunks(
          Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) => bytes.subarray(i * step, (i + 1) * step)),
        );
        const down = await post(metered, ask);
        expect(down.bytes.equals(bytes)).to.equal(true);
      });
    }

    const usage = 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n';
    const around = ['data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n', 'data: [DONE]\n\n'] as const;

    it('but for the usage chunk that the caller did not ask for', async () => {
      const bytes = Buffer.from(around[0] + usage + around[1]);
      for (const parts of [[bytes], Array.from(bytes, (byte) => Buffer.from([byte]))]) {
        upstream.script = chunks(parts);
        expect((await post(metered, ask)).bytes.toString()).to.equal(around[0] + around[1]);
      }
    });

    it('with the usage chunk when the caller asked for it, or nobody did', async () => {
      upstream.script = chunks([around[0], usage, around[1]]);
      const asking = ask.replace('true', 'true,"stream_options":{"include_usage":true}');
      expect((await post(metered, asking)).bytes.toString()).to.equal(around[0] + usage + around[1]);
      expect((await post(plain, ask)).bytes.toString()).to.equal(around[0] + usage + around[1]);
      // the switch of this upstream is off
      expect(upstream.last.body.toString()).to.equal(ask);
    });

    const bodies: [string, Buffer][] = [
      [
        'a completion with 64-bit integers and white space',
        Buffer.from(' {\n "choices":[1], "a" : 18446744073709551615,"b":1.0, "b":2}\n'),
      ],
      [
        'images of 3 MB',
        Buffer.from(`{"created":1,"choices":[1],"data":[{"b64_json":"${'A'.repeat(3 * 1024 * 1024)}"}]}`),
      ],
    ];
    for (const [name, body] of bodies) {
      it(`with ${name}, whether their length is known or not`, async () => {
        const chunked: Script = (res) => {
          res.writeHead(200, { 'content-type': 'application/json' });
          for (let i = 0; i < body.length; i += 50_000) res.write(body.subarray(i, i + 50_000));
          res.end();
        };
        for (const script of [json(200, body), chunked]) {
          upstream.script = script;
          const down = await post(metered, ask);
          expect(down.bytes.equals(body)).to.equal(true);
          expect(down.headers.get('content-type')).to.equal('application/json');
        }
      });
    }

    it('but for vectors of numbers where base64 was asked for', async () => {
      const answer =
        '{"object":"list","data":[{"embedding":[0.25,-0.5,0.125],"index":0}],"model":"m","usage":{"prompt_tokens":1}}';
      const base64 = answer.replace('[0.25,-0.5,0.125]', '"AACAPgAAAL8AAAA+"');
      upstream.script = json(200, Buffer.from(answer));
      const ask = (format: string) => `{"model":"m","input":"a"${format}}`;
      const down = await post(plain, ask(',"encoding_format":"base64"'), '/embeddings');
      expect(down.bytes.toString()).to.equal(base64);
      expect(down.headers.get('content-length')).to.equal(String(base64.length));
      for (const format of ['', ',"encoding_format":"float"']) {
        expect((await post(plain, ask(format), '/embeddings')).bytes.toString()).to.equal(answer);
      }
    });

    it('but for such vectors also in an answer that is too large to be held', async () => {
      const vector = Array.from({ length: 1536 }, (_, i) => i / 7);
      const bytes = Buffer.alloc(1536 * 4);
      for (const [i, number] of vector.entries()) bytes.writeFloatLE(number, i * 4);
      const item = { object: 'embedding', index: 0, embedding: vector };
      upstream.script = json(200, { object: 'list', data: Array.from({ length: 50 }, () => item), model: 'm' });
      const down = await post(plain, '{"model":"m","input":"a","encoding_format":"base64"}', '/embeddings');
      const { data } = JSON.parse(down.bytes.toString());
      expect(data).to.have.lengthOf(50);
      for (const { embedding } of data) expect(embedding).to.equal(bytes.toString('base64'));
    });
  });

  for (const call of endpointCalls) {
    it(`are the same both ways for ${call.name}, whole and split at every few bytes`, async () => {
      const bytes = Buffer.concat(call.answer);
      const type = { 'content-type': call.answerType };
      const step = Math.ceil(bytes.length / 300);
      const parts = Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) =>
        bytes.subarray(i * step, (i + 1) * step),
      );
      for (const script of [json(200, bytes, type), chunks(parts, type)]) {
        upstream.script = script;
        const response = await send(plain.baseUrl, call);
        expect([response.status, response.headers.get('content-type')]).to.deep.equal([200, call.answerType]);
        expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).to.equal(true);
        const { method, path, body, headers } = upstream.last;
        expect([method, path, headers['content-type']]).to.deep.equal([call.method, `/v1${call.path}`, call.bodyType]);
        expect(body.equals(call.body ?? Buffer.alloc(0))).to.equal(true);
      }
    });
  }
});
