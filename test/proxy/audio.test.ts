import { randomBytes } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import type OpenAI from 'openai';
import { toFile } from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, hang, inTurn, json, reset, type Script, ScriptedUpstream } from '../support/upstream.ts';

const recording = randomBytes(80_000);
const speak = { model: 'tts-1', input: 'The harbour 😀', voice: 'alloy' };
/** One answer of these bytes with this type. */
const body = (bytes: Buffer | string, type: string): Script => json(200, Buffer.from(bytes), { 'content-type': type });
const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;

/** A WAV file of so many seconds: 8,000 samples a second, 16 bits each. */
function wav(seconds: number): Buffer {
  const header = Buffer.alloc(44);
  header.write('RIFF....WAVEfmt ', 'latin1');
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(8_000, 24);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  return Buffer.concat([header, Buffer.alloc(seconds * 16_000 - 44)]);
}

describe('audio', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: OpenAI;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, aliases: { fast: 'vendor/whisper' } }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    client = server.client();
  });
  beforeEach(() => {
    records = [];
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  const file = () => toFile(recording, 'talk.mp3', { type: 'audio/mpeg' });
  const used = async () => {
    await until(() => records.length > 0);
    expect(records).to.have.length(1);
    const { endpoint, model, inputTokens, outputTokens, seconds, characters, images, estimated, ending } =
      records[0] as UsageRecord;
    expect(images).to.equal(0);
    return { endpoint, model, inputTokens, outputTokens, seconds, characters, estimated, ending };
  };
  const failure = async (promise: PromiseLike<unknown>) => {
    try {
      await promise;
    } catch (error) {
      return error as InstanceType<typeof OpenAI.APIError>;
    }
    throw new Error('the call should have failed');
  };

  describe('that is made from a text', () => {
    const ofSpeech = {
      endpoint: '/audio/speech',
      model: 'tts-1',
      inputTokens: 0,
      outputTokens: 0,
      seconds: 0,
      characters: 13,
      estimated: false,
      ending: 'complete',
    };

    it('is relayed byte for byte, as is its request, and the characters of its text are counted', async () => {
      upstream.script = body(recording, 'audio/mpeg');
      const response = await client.audio.speech.create(speak);
      expect(response.headers.get('content-type')).to.equal('audio/mpeg');
      expect(response.headers.get('content-length')).to.equal('80000');
      expect(Buffer.from(await response.arrayBuffer()).equals(recording)).to.equal(true);
      expect(upstream.last.path).to.equal('/v1/audio/speech');
      expect(upstream.last.body.toString()).to.equal(JSON.stringify(speak));
      expect(await used()).to.deep.equal(ofSpeech);
    });

    it('reaches the client as it comes, before its end', async () => {
      let release = (): void => {};
      const released = new Promise<void>((resolve) => {
        release = resolve;
      });
      upstream.script = async (res) => {
        res.writeHead(200, { 'content-type': 'audio/pcm' });
        res.write(recording.subarray(0, 10));
        await released;
        res.end(recording.subarray(10));
      };
      const { body } = await client.audio.speech.create(speak);
      const parts: Buffer[] = [];
      for await (const part of body as unknown as AsyncIterable<Uint8Array>) {
        if (parts.length === 0) expect(part).to.have.length(10);
        parts.push(Buffer.from(part));
        release();
      }
      expect(Buffer.concat(parts).equals(recording)).to.equal(true);
    });

    it('cuts the connection when it breaks off, and is still counted', async () => {
      upstream.script = reset(recording, { 'content-type': 'audio/mpeg' });
      const response = await client.audio.speech.create(speak);
      await failure(response.arrayBuffer());
      expect(await used()).to.deep.equal({ ...ofSpeech, ending: 'upstream_failed' });
    });

    it('comes as events where the client asks for them, which end without [DONE], and their usage counts', async () => {
      const usage = { input_tokens: 4, output_tokens: 30, total_tokens: 34 };
      const sent = [
        event({ type: 'speech.audio.delta', audio: recording.toString('base64') }),
        event({ type: 'speech.audio.done', usage }),
      ];
      for (const type of ['text/event-stream', 'text/plain']) {
        records = [];
        upstream.script = chunks(sent, { 'content-type': type });
        const response = await client.audio.speech.create({ ...speak, stream_format: 'sse' });
        expect(response.headers.get('content-type')).to.match(/^text\/event-stream/);
        expect(await response.text()).to.equal(sent.join(''));
        expect(await used()).to.deep.equal({ ...ofSpeech, inputTokens: 4, outputTokens: 30 });
      }
    });

    it('ends its events with an error when it breaks off', async () => {
      upstream.script = reset(event({ type: 'speech.audio.delta', audio: 'AAAA' }));
      const response = await client.audio.speech.create({ ...speak, stream_format: 'sse' });
      expect(await response.text()).to.match(/"code":"upstream_disconnected"\}\}\n\n$/);
      expect(await used()).to.include({ characters: 13, ending: 'upstream_failed' });
    });

    it('is decompressed where the upstream compresses it', async () => {
      upstream.script = json(200, gzipSync(recording), { 'content-type': 'audio/wav', 'content-encoding': 'gzip' });
      const response = await client.audio.speech.create(speak);
      expect(Buffer.from(await response.arrayBuffer()).equals(recording)).to.equal(true);
      expect(response.headers.get('content-encoding')).to.equal(null);
    });

    it('has errors, retries and validation as every other call', async () => {
      const error = { message: 'No such voice', type: 'invalid_request_error', param: 'voice', code: 'bad_voice' };
      upstream.script = json(400, { error });
      expect((await failure(client.audio.speech.create(speak))).code).to.equal('bad_voice');
      upstream.script = json(404, Buffer.from('<html>'), { 'content-type': 'text/html' });
      expect((await failure(client.audio.speech.create(speak))).code).to.equal('upstream_invalid_response');
      upstream.script = inTurn(json(500, {}), body('audio', 'audio/mpeg'));
      expect(await (await client.audio.speech.create(speak)).text()).to.equal('audio');
      expect((await failure(client.audio.speech.create({ ...speak, input: 1 as never }))).code).to.equal(
        'invalid_type',
      );
    });

    it('is aborted when the client disconnects, and its text is counted', async () => {
      upstream.script = hang;
      const abort = new AbortController();
      const count = upstream.requests.length;
      const call = client.audio.speech.create(speak, { signal: abort.signal }).catch(() => {});
      const request = await upstream.received(count + 1);
      abort.abort();
      expect(await request.closed).to.equal(false);
      await call;
      expect(await used()).to.deep.equal({ ...ofSpeech, ending: 'client_left' });
    });
  });

  describe('that is transcribed', () => {
    const answer = { text: 'The harbour at dusk' };
    const none = { inputTokens: 0, outputTokens: 0, seconds: 0, characters: 0, estimated: false, ending: 'complete' };
    const ofTranscription = { endpoint: '/audio/transcriptions', model: 'fast', ...none };

    it('reaches the upstream byte for byte but for the alias, and is counted in tokens if the upstream counts tokens', async () => {
      const usage = { type: 'tokens', input_tokens: 25, output_tokens: 6, total_tokens: 31 };
      upstream.script = json(200, { ...answer, usage });
      const transcription = await client.audio.transcriptions.create({ model: 'fast', file: await file() });
      expect(transcription.text).to.equal(answer.text);
      expect(upstream.last.path).to.equal('/v1/audio/transcriptions');
      expect(upstream.last.body.includes(recording)).to.equal(true);
      expect(upstream.last.body.includes('vendor/whisper')).to.equal(true);
      expect(upstream.last.body.includes('fast')).to.equal(false);
      expect(await used()).to.deep.equal({ ...ofTranscription, inputTokens: 25, outputTokens: 6 });
    });

    it('is counted in seconds if the upstream counts seconds', async () => {
      upstream.script = json(200, { ...answer, usage: { type: 'duration', seconds: 9 } });
      await client.audio.transcriptions.create({ model: 'fast', file: await file() });
      expect(await used()).to.deep.equal({ ...ofTranscription, seconds: 9 });
    });

    it('is counted by the duration of a verbose answer without usage', async () => {
      const verbose = { task: 'transcribe', language: 'english', duration: 8.47, ...answer, segments: [] };
      upstream.script = json(200, verbose);
      const response = await client.audio.transcriptions.create({
        model: 'fast',
        file: await file(),
        response_format: 'verbose_json',
        timestamp_granularities: ['word', 'segment'],
      });
      expect(response).to.deep.include(verbose);
      expect(await used()).to.deep.equal({ ...ofTranscription, seconds: 8.47 });
    });

    for (const [format, text] of [
      ['text', 'The harbour at dusk\n'],
      ['srt', '1\n00:00:00,000 --> 00:00:02,500\nThe harbour at dusk\n\n'],
      ['vtt', 'WEBVTT\n\n00:00.000 --> 00:02.500\nThe harbour at dusk\n'],
      ['text', ''],
    ] as const) {
      it(`is answered with ${text.length} bytes of ${format}, and its length is estimated`, async () => {
        upstream.script = body(text, 'text/plain; charset=utf-8');
        const response = await client.audio.transcriptions
          .create({ model: 'fast', file: await file(), response_format: format })
          .asResponse();
        expect(response.headers.get('content-type')).to.equal('text/plain; charset=utf-8');
        expect(await response.text()).to.equal(text);
        expect(await used()).to.include({ seconds: 10, estimated: true, ending: 'complete' });
      });
    }

    it('is not counted by a usage that the transcribed text contains', async () => {
      const said =
        '"usage": {"type": "duration", "seconds": 0}, "duration": 0, "usage": {"input_tokens": 0, "output_tokens": 0}';
      for (const text of [said, `${said} ${'x'.repeat(300_000)}`]) {
        records = [];
        upstream.script = body(text, 'text/plain');
        const request = { model: 'fast', file: await file(), response_format: 'text' as const };
        expect(await client.audio.transcriptions.create(request)).to.equal(text);
        expect(await used()).to.include({ seconds: 10, estimated: true, outputTokens: Math.ceil(text.length / 3) });
      }
    });

    it('is estimated by the header of a WAV file where the answer has no usage', async () => {
      upstream.script = body('text', 'text/plain');
      const talk = await toFile(wav(3), 'talk.wav', { type: 'audio/wav' });
      await client.audio.transcriptions.create({ model: 'fast', file: talk, response_format: 'text' });
      expect(await used()).to.include({ seconds: 3, estimated: true });
    });

    it('is answered as events, which end without [DONE]', async () => {
      const usage = { type: 'tokens', input_tokens: 25, output_tokens: 6, total_tokens: 31 };
      upstream.script = chunks([
        event({ type: 'transcript.text.delta', delta: 'The harbour' }),
        event({ type: 'transcript.text.delta', delta: ' at dusk' }),
        event({ type: 'transcript.text.done', text: answer.text, usage }),
      ]);
      const stream = await client.audio.transcriptions.create({ model: 'fast', file: await file(), stream: true });
      const types: string[] = [];
      for await (const { type } of stream) types.push(type);
      expect(types).to.deep.equal(['transcript.text.delta', 'transcript.text.delta', 'transcript.text.done']);
      expect(await used()).to.deep.equal({ ...ofTranscription, inputTokens: 25, outputTokens: 6 });
    });

    it('ends in an error when its events break off', async () => {
      upstream.script = reset(event({ type: 'transcript.text.delta', delta: 'The' }));
      const stream = await client.audio.transcriptions.create({ model: 'fast', file: await file(), stream: true });
      const thrown = await failure(
        (async () => {
          for await (const _ of stream);
        })(),
      );
      expect(thrown.code).to.equal('upstream_disconnected');
      expect(await used()).to.include({ estimated: true, seconds: 10, ending: 'upstream_failed' });
    });

    it('can also be translated, and is counted in seconds', async () => {
      upstream.script = json(200, { ...answer, usage: { type: 'duration', seconds: 3 } });
      const translation = await client.audio.translations.create({ model: 'whisper-1', file: await file() });
      expect(translation.text).to.equal(answer.text);
      expect(upstream.last.path).to.equal('/v1/audio/translations');
      expect(await used()).to.include({ endpoint: '/audio/translations', model: 'whisper-1', seconds: 3 });
    });

    it('is refused without a recording or a model, before the upstream is called', async () => {
      const count = upstream.requests.length;
      const withoutModel = client.audio.transcriptions.create({ file: await file() } as never);
      expect((await failure(withoutModel)).param).to.equal('model');
      const withoutFile = client.audio.transcriptions.create({ model: 'fast' } as never);
      expect((await failure(withoutFile)).param).to.equal('file');
      expect(upstream.requests).to.have.length(count);
    });
  });
});
