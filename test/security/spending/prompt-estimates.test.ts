import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { ownedByAll } from '../../proxy/relay/endpoint-calls.ts';
import { callerKey, startModelServer } from '../../support/model-server.ts';
import { hang, ScriptedUpstream } from '../../support/upstream.ts';

const filler = 'word '.repeat(40_000);
const chat = (content: unknown) => JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] });

/** Sends a body, leaves before there is an answer, and says what was recorded. */
async function recordOf(path: string, body: string | FormData): Promise<UsageRecord> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = hang;
  let tell: (record: UsageRecord) => void;
  const told = new Promise<UsageRecord>((resolve) => {
    tell = resolve;
  });
  const server = await startModelServer({
    upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
    storedObjects: ownedByAll('one'),
    hooks: { onUsage: (record) => tell(record) },
  });
  try {
    const leaving = new AbortController();
    const headers = {
      authorization: `Bearer ${callerKey}`,
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
    };
    fetch(server.baseUrl + path, { method: 'POST', headers, body, signal: leaving.signal }).catch(() => {});
    await upstream.received(1);
    leaving.abort();
    return await told;
  } finally {
    await server.close();
    await upstream.close();
  }
}

describe('the estimate of a request whose client disconnects before the answer', () => {
  it('follows the length of a text, even of one that begins like a data URL', async () => {
    const texts = [
      chat(`data:${filler}`),
      chat([{ type: 'text', text: `data:image/png;base64,${filler}` }]),
      chat(`Look: "url":"data:${filler}`),
    ];
    for (const body of texts) {
      const { inputTokens } = await recordOf('/chat/completions', body);
      expect(inputTokens, body.slice(0, 90)).to.be.at.least(filler.length / 4);
    }
    const { inputTokens } = await recordOf('/embeddings', JSON.stringify({ model: 'm', input: `data:${filler}` }));
    expect(inputTokens).to.be.at.least(filler.length / 4);
  });
  it('is 1,500 tokens for a picture or a file, and not the length of its bytes', async () => {
    const picture = { type: 'image_url', image_url: { url: `data:image/png;base64,${filler}` } };
    const file = { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${filler}` } };
    for (const part of [picture, file]) {
      const { inputTokens } = await recordOf('/chat/completions', chat([part]));
      expect(inputTokens, part.type).to.be.within(1_500, 1_600);
    }
  });
  it('is 1,500 tokens for each picture of a form', async () => {
    const form = new FormData();
    form.append('model', 'm');
    form.append('prompt', 'A hat');
    form.append('image[]', new Blob([filler], { type: 'image/png' }), 'a.png');
    form.append('image[]', new Blob([filler], { type: 'image/png' }), 'b.png');
    const { inputTokens } = await recordOf('/images/edits', form);
    expect(inputTokens).to.be.within(3_000, 3_400);
  });
  it('is 1,500 tokens for each picture that an edit names', async () => {
    const picture = { image_url: `data:image/png;base64,${filler}` };
    const images = [picture, { image_url: 'https://images.example.com/a.png' }, { file_id: 'file-1' }];
    const body = JSON.stringify({ model: 'm', prompt: 'A hat', images, mask: picture });
    const { inputTokens } = await recordOf('/images/edits', body);
    expect(inputTokens).to.be.within(6_000, 6_400);
  });
  it('is the number of tokens that it lists, however much white space is before them', async () => {
    const tokens = Array(20_000).fill(1).join();
    const { inputTokens } = await recordOf('/embeddings', `{"model":"m","input":[${' '.repeat(100)}${tokens}]}`);
    expect(inputTokens).to.equal(20_000);
  });
  it('is a number of images that can be charged exactly, however many were asked for', async () => {
    const body = JSON.stringify({ model: 'm', prompt: 'A hat', n: Number.MAX_SAFE_INTEGER });
    const { images } = await recordOf('/images/generations', body);
    expect(images * 9_000_000).to.be.below(Number.MAX_SAFE_INTEGER);
  });
});
