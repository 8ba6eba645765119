import { expect } from 'chai';
import fc from 'fast-check';
import { FormData, request } from 'undici';
import { GatewayError } from '../../../src/index.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';
import { clientForms, rareForms } from './form-judges/client-forms.ts';
import { craftedForms } from './form-judges/crafted.ts';
import { readAsGateway } from './form-judges/gateway-reading.ts';
import { type Judge, type Reading, type SentForm, startJudges } from './form-judges/judges.ts';
import { mutatedForms } from './form-judges/mutated.ts';

/** How many forms the readers are asked about. */
const cases = 3_000;

const names = ['model', 'stream', 'n'] as const;

/** What a reader finds of what the gateway acts on. */
function actedOn(reading: Reading): object | string {
  if (reading instanceof Error) return `refused: ${reading.message}`;
  return Object.fromEntries(names.map((name) => [name, reading.get(name) ?? []]));
}

async function ours(form: SentForm): Promise<{ fields: Readonly<Record<string, readonly string[]>> } | GatewayError> {
  try {
    const { model, stream, n } = await readAsGateway(form);
    return {
      fields: {
        model: model === undefined ? [] : [model],
        stream: stream ? ['true'] : [],
        n: n === undefined ? [] : [n],
      },
    };
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

describe('a form that parsers of forms read differently', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { created: 1, data: [{ b64_json: 'AA' }] });
    server = await startModelServer({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] });
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  const send = async (path: string, { type, body }: SentForm) => {
    const headers = { authorization: `Bearer ${callerKey}`, 'content-type': type };
    const answer = await request(`${server.baseUrl}${path}`, { method: 'POST', headers, body });
    return { status: answer.statusCode, error: ((await answer.body.json()) as { error?: { code: string } }).error };
  };

  for (const [title, form] of Object.entries(craftedForms)) {
    it(`is refused: ${title}`, async () => {
      const before = upstream.requests.length;
      const { status, error } = await send('/images/edits', form);
      expect(status).to.equal(400);
      expect(error?.code).to.match(
        /^(invalid_form|invalid_type|invalid_value|unknown_parameter|invalid_encoding|duplicate_parameter)$/,
      );
      expect(upstream.requests.length).to.equal(before);
    });
  }

  it('is refused by the endpoint for variations as well', async () => {
    const form = craftedForms['two models'] as SentForm;
    expect((await send('/images/variations', form)).error?.code).to.equal('duplicate_parameter');
  });

  it('needs the fields that openapi.yaml requires, each of its type, and may have others', async () => {
    const form = async (fields: Readonly<Record<string, string | Blob>>, path = '/images/edits') => {
      const data = new FormData();
      for (const [name, value] of Object.entries(fields)) data.append(name, value);
      const headers = { authorization: `Bearer ${callerKey}` };
      const answer = await request(`${server.baseUrl}${path}`, { method: 'POST', headers, body: data });
      const { error } = (await answer.body.json()) as { error?: { code: string; param: string } };
      return error ? `${error.code} ${error.param}` : 'relayed';
    };
    const image = new Blob(['PNG'], { type: 'image/png' });
    const prompt = 'Let it be night';
    expect(await form({ image, prompt })).to.equal('relayed');
    expect(await form({ 'image[]': image, prompt, input_fidelity: 'high', n: '2', stream: 'false' })).to.equal(
      'relayed',
    );
    expect(await form({ image }, '/images/variations')).to.equal('relayed');
    expect(await form({ prompt })).to.equal('missing_required_parameter image');
    expect(await form({ image })).to.equal('missing_required_parameter prompt');
    expect(await form({ prompt }, '/images/variations')).to.equal('missing_required_parameter image');
    expect(await form({ image, prompt: image })).to.equal('invalid_type prompt');
    expect(await form({ image: 'PNG', prompt })).to.equal('invalid_type image');
    expect(await form({ image, prompt, mask: 'PNG' })).to.equal('invalid_type mask');
    expect(await form({ image, prompt, n: 'two' })).to.equal('invalid_type n');
    expect(await form({ image, prompt, stream: 'yes' })).to.equal('invalid_type stream');
    expect(await form({ image, prompt, model: '' })).to.equal('invalid_value model');
    expect(await form({ image, prompt, model: 'm'.repeat(257) })).to.equal('invalid_value model');
    expect(await form({ image, prompt, model: '模'.repeat(256) })).to.equal('relayed');
    expect(await form({ image, prompt, Stream: 'true' })).to.equal('unknown_parameter Stream');
  });
});

describe('a form that is accepted', () => {
  let judges: readonly Judge[];
  before(async () => {
    const started = await startJudges();
    judges = started.judges;
    for (const { reason } of started.missing) console.log(`      not asked, for this machine has it not: ${reason}`);
    const required = started.missing.filter(({ hasNoLanguage }) => !hasNoLanguage);
    // who works on something else may be offline; the gate is to ask all of them
    if (process.env.CI) expect(required, 'readers of forms that the gate has to ask').to.deep.equal([]);
  });
  after(() => {
    for (const judge of judges) judge.close();
  });

  for (const [client, form] of Object.entries(clientForms)) {
    it(`may come from ${client}`, async () => {
      const found = await ours(form);
      if (found instanceof GatewayError) throw found;
      expect(found.fields.model).to.deep.equal(['gpt-image-1']);
      for (const judge of judges) expect(actedOn(await judge.read(form)), judge.name).to.deep.equal(found.fields);
    });
  }

  for (const [title, form] of Object.entries(rareForms)) {
    it(`may have ${title}, which others read alike or refuse`, async () => {
      const found = await ours(form);
      if (found instanceof GatewayError) throw found;
      expect(found.fields.model).to.deep.equal(['gpt-image-1']);
      const readings = await Promise.all(judges.map((judge) => judge.read(form)));
      const taken = readings.filter((reading) => !(reading instanceof Error)).map(actedOn);
      expect(taken).to.not.have.length(0);
      for (const reading of taken) expect(reading).to.deep.equal(found.fields);
    });
  }

  it('has the same fields for busboy, undici, Go and werkzeug, whatever mutation it comes from', async () => {
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(mutatedForms, async (form) => {
        const found = await ours(form);
        if (found instanceof GatewayError) return;
        taken += 1;
        const readings = await Promise.all(judges.map((judge) => judge.read(form)));
        // `stream=false` is what no `stream` is
        for (const [i, reading] of readings.entries()) {
          const acted = actedOn(reading);
          const stream =
            typeof acted === 'object' && (acted as { stream: string[] }).stream[0] === 'false' ? { stream: [] } : {};
          const same = typeof acted === 'object' ? { ...acted, ...stream } : acted;
          // a reader that refuses these reads nothing else in them
          const mayBeRefused = form.body.includes('\\"') || form.type.endsWith(';');
          if (mayBeRefused && reading instanceof Error) continue;
          expect(
            same,
            `${judges[i]?.name} of ${form.type} ${JSON.stringify(form.body.toString('latin1'))}`,
          ).to.deep.equal(found.fields);
        }
      }),
      { numRuns: cases },
    );
    // a check that took next to nothing would prove nothing
    expect(taken).to.be.greaterThan(cases / 10);
    console.log(`      ${cases} forms, ${taken} taken, asked: ${judges.map(({ name }) => name).join(', ')}`);
  });
});
