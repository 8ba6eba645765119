import Anthropic, { toFile } from '@anthropic-ai/sdk';
import { expect } from 'chai';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { chunks, json, type Script, ScriptedUpstream } from '../support/upstream.ts';

const ask = { model: 'claude', max_tokens: 100, messages: [{ role: 'user' as const, content: 'Which river?' }] };
const tools = [{ type: 'code_execution_20250825' as const, name: 'code_execution' as const }];
const usage = { input_tokens: 6, output_tokens: 5 };
const text = { type: 'text', text: 'The Douro.' };
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [text], usage };
const expires_at = '2026-12-31T00:00:00Z';

const sent = (event: { readonly type: string }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

/** A message that was made in this container. */
function madeIn(id: string, stream: boolean): Script {
  const container = { id, expires_at, skills: null };
  if (!stream) return json(200, { ...message, stop_reason: 'end_turn', container });
  const events = [
    { type: 'message_start', message: { ...message, content: [], stop_reason: null, container: null } },
    { type: 'content_block_start', index: 0, content_block: text },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', container }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ];
  return chunks(events.map(sent));
}

const failure = (promise: PromiseLike<unknown>) =>
  Promise.resolve(promise).then(
    () => undefined,
    (error) => error,
  );

describe('what messages name of what upstreams keep', () => {
  let upstreams: readonly ScriptedUpstream[];
  let live: LiveGateway;
  let client: Anthropic;
  let stranger: Anthropic;

  before(async () => {
    upstreams = [await ScriptedUpstream.start(), await ScriptedUpstream.start()];
    live = await startGateway({
      upstreams: upstreams.map(({ baseUrl }, i) => ({ name: `up_${i}`, baseUrl, speaks: ['anthropic'] })),
    });
    const clientOf = (apiKey: string) => new Anthropic({ apiKey, baseURL: live.url, maxRetries: 0 });
    client = clientOf(live.key);
    stranger = clientOf((await live.gateway.keys.create({ userId: 'usr_2' })).key);
  });
  beforeEach(() => {
    for (const { requests } of upstreams) requests.length = 0;
  });
  after(async () => {
    await live.close();
    for (const upstream of upstreams) await upstream.close();
  });

  const answerWith = (script: (i: number) => Script) => {
    for (const [i, upstream] of upstreams.entries()) upstream.script = script(i);
  };
  const counts = () => upstreams.map(({ requests }) => requests.length);

  for (const stream of [false, true]) {
    it(`is a container of the account that was shown it, at the upstream that keeps it: ${stream ? 'streamed' : 'whole'}`, async () => {
      answerWith((i) => madeIn(`container_${stream}_${i}`, stream));
      const send = (by: Anthropic, container?: string | { id: string }) => {
        const body = { ...ask, ...(container === undefined ? { tools } : { container }) };
        return stream ? by.messages.stream(body).finalMessage() : by.messages.create(body);
      };
      const { container } = await send(client);
      const id = container?.id as string;
      const first = counts();
      expect(id).to.equal(`container_${stream}_${first.indexOf(1)}`);
      for (const named of [id, { id }, id]) expect((await send(client, named)).container?.id).to.equal(id);
      expect(counts()).to.deep.equal(first.map((count) => count * 4));
      const error = await failure(send(stranger, id));
      expect(error).to.be.instanceOf(Anthropic.NotFoundError);
      expect(error.error.error).to.include({ code: 'container_not_found', param: 'container' });
      const requests = [{ custom_id: 'a', params: { ...ask, container: id } }];
      expect(await failure(stranger.messages.batches.create({ requests }))).to.be.instanceOf(Anthropic.NotFoundError);
      expect(counts()).to.deep.equal(first.map((count) => count * 4));
    });
  }

  it('is no container that a message only speaks of', async () => {
    const input = { container: { id: 'container_spoken', expires_at } };
    const content = [{ type: 'tool_use', id: 'toolu_1', name: 'report', input }];
    answerWith(() => json(200, { ...message, content, stop_reason: 'tool_use' }));
    await client.messages.create({ ...ask, tools });
    const error = await failure(client.messages.create({ ...ask, container: 'container_spoken' }));
    expect(error).to.be.instanceOf(Anthropic.NotFoundError);
  });

  it('is no message that the provider is to continue, but may be one that it is to compare', async () => {
    answerWith(() => json(200, { ...message, stop_reason: 'end_turn' }));
    const previous_message_id = 'msg_1';
    const thread = { type: 'continue' as const, previous_message_id };
    for (const by of [client, stranger]) {
      const error = await failure(by.beta.messages.create({ ...ask, thread }));
      expect(error).to.be.instanceOf(Anthropic.NotFoundError);
      expect(error.error.error).to.include({ code: 'response_not_found', param: 'thread.previous_message_id' });
    }
    expect(counts()).to.deep.equal([0, 0]);
    const compared = await client.beta.messages.create({ ...ask, diagnostics: { previous_message_id } });
    expect(compared.id).to.equal('msg_1');
  });

  it("is a skill of Anthropic's own, or one that its account has made", async () => {
    const skill = { id: 'skill_1', type: 'skill', display_name: 'Rivers', latest_version: '1' };
    answerWith(() => json(200, skill));
    const files = [await toFile(Buffer.from('# Rivers'), 'rivers/SKILL.md')];
    expect(await client.beta.skills.create({ display_name: 'Rivers', files })).to.include(skill);
    expect(
      upstreams.flatMap(({ requests }) => requests.map(({ headers }) => headers['anthropic-version'])),
    ).to.have.length(1);
    expect((await client.beta.skills.retrieve('skill_1')).display_name).to.equal('Rivers');
    const listed: string[] = [];
    for await (const { id } of client.beta.skills.list()) listed.push(id);
    expect(listed).to.deep.equal(['skill_1']);
    expect((await stranger.beta.skills.list()).data).to.deep.equal([]);
    for (const call of [
      () => stranger.beta.skills.retrieve('skill_1'),
      () => stranger.beta.skills.delete('skill_1'),
      () => stranger.beta.skills.versions.list('skill_1'),
    ]) {
      expect(await failure(call()))
        .to.be.instanceOf(Anthropic.NotFoundError)
        .with.property('type', 'not_found_error');
    }

    answerWith(() => json(200, { ...message, stop_reason: 'end_turn' }));
    const asking = (by: Anthropic, type: 'anthropic' | 'custom', skill_id: string) =>
      by.beta.messages.create({ ...ask, tools, container: { skills: [{ type, skill_id, version: 'latest' }] } });
    expect((await asking(stranger, 'anthropic', 'pptx')).id).to.equal('msg_1');
    expect((await asking(client, 'custom', 'skill_1')).id).to.equal('msg_1');
    for (const id of ['skill_1', 'skill_unknown']) {
      const error = await failure(asking(stranger, 'custom', id));
      expect(error).to.be.instanceOf(Anthropic.NotFoundError);
      expect(error.error.error).to.include({ code: 'skill_not_found', param: 'container.skills[0].skill_id' });
    }
  });
});
