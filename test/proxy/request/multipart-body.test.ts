import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'chai';
import { readForm } from '../../../src/http/body/form.ts';
import { bodyFor, readMultipartBody } from '../../../src/proxy/model-body.ts';
import { collectGarbage } from '../../support/processes/held-memory.ts';

const type = 'multipart/form-data; boundary=xYz';
const part = (disposition: string, value: string, more = '') =>
  `--xYz\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: x/y\r\n${more}\r\n${value}\r\n`;
const file = part('name="image"; filename="model"', 'PNG\r\n--xY\0\r\nname="model"\r\n\r\nnot me');
const form = (...parts: string[]) => Buffer.from(`${parts.join('')}--xYz--\r\n`, 'latin1');
const read = async (bytes: Buffer, contentType = type) => readMultipartBody(await readForm(bytes, contentType));

async function refusal(bytes: Buffer, contentType = type): Promise<string> {
  const error = await read(bytes, contentType).catch((thrown) => thrown);
  expect(error).to.include({ code: 'invalid_form' });
  return error.message;
}

describe('the form of an image edit', () => {
  it('gives its model, and reaches the upstream byte for byte', async () => {
    const bytes = form(file, part('name="model"', 'gpt-image-1'), part('name="stream"', 'true'));
    const body = await read(bytes);
    expect(body).to.include({ model: 'gpt-image-1', stream: true });
    expect(bodyFor(bytes, body, 'gpt-image-1', true)).to.equal(bytes);
  });

  it('has the model replaced by the alias and nothing else', async () => {
    const bytes = form(part('name=model', 'fast'), file);
    expect(bodyFor(bytes, await read(bytes), 'big-1', true)).to.deep.equal(form(part('name=model', 'big-1'), file));
  });

  it('has the Content-Length of the model part replaced too, where the part has one', async () => {
    const model = (name: string) => part('name="model"', name, `Content-Length: ${name.length}\r\n`);
    const bytes = form(model('fast'), file);
    const body = await read(bytes);
    expect(body.model).to.equal('fast');
    expect(bodyFor(bytes, body, 'a-longer-name', true).toString()).to.equal(
      form(model('a-longer-name'), file).toString(),
    );
  });

  it('is freed from memory while its model is still in use', async () => {
    const readOnce = async () => {
      const bytes = form(part('name="model"', 'fast'), file);
      return { body: await read(bytes), bytes: new WeakRef(bytes) };
    };
    const { body, bytes } = await readOnce();
    for (let i = 0; i < 10 && bytes.deref(); i += 1) {
      await nextTurn();
      collectGarbage();
    }
    expect(bytes.deref()).to.equal(undefined);
    expect(body.writeModel('big-1')).to.equal('big-1');
  });

  it('may name no model', async () => {
    expect((await read(form(file))).model).to.equal(undefined);
    expect((await read(form())).model).to.equal(undefined);
  });

  it('may have its boundary quoted', async () => {
    const quoted = 'multipart/form-data; charset=utf-8; boundary="xYz"';
    expect((await read(form(part('name="model"', 'm')), quoted)).model).to.equal('m');
  });

  it('is refused with the part and what is wrong with it', async () => {
    const withHead = (head: string) => Buffer.from(`--xYz\r\n${head}\r\n\r\nx\r\n--xYz--\r\n`);
    const disposition = 'Content-Disposition: form-data; ';
    for (const [head, problem] of [
      ['Content-Type: text/plain', 'must have Content-Disposition: form-data; name="…"'],
      ['Content-Disposition: attachment; name="a"', 'must have Content-Disposition: form-data; name="…"'],
      [`${disposition}name="a"\r\nX-Y: z`, 'has the header X-Y; it may have content-disposition, content-type'],
      [`${disposition}name="a"\r\n${disposition}name="b"`, 'has the header content-disposition twice'],
      [`${disposition}name="a" `, 'must have each header in one line, as its name, a colon and its value'],
      [`${disposition}name="a"; size=1`, 'has the parameter size in Content-Disposition; it may have name, filename'],
      [`${disposition}name="a"; name="b"`, 'has the parameter name twice'],
      [`${disposition}filename="x"; name="a"`, 'must have name as the first parameter'],
      [`${disposition}name="a b"`, 'must have as name in Content-Disposition 1 to 256 letters, digits'],
      [`${disposition}name="a"; filename*=x`, "must have as filename* in Content-Disposition utf-8'' and"],
      [
        `${disposition}name="a"; filename="a\\";b"`,
        'must have as filename in Content-Disposition a text that has not both',
      ],
      [`${disposition}name="a";`, 'has a semicolon at the end of Content-Disposition, which only a file may have'],
    ] as const) {
      expect(await refusal(withHead(head))).to.include(`every reader: part 1 ${problem}`);
    }
  });

  it('is refused without a boundary, when it breaks off, and with more than 1,000 parts', async () => {
    expect(await refusal(form(file), 'multipart/form-data')).to.match(/boundary/);
    expect(await refusal(Buffer.alloc(0))).to.match(/begin with its boundary/);
    expect(await refusal(Buffer.from('--xYz\r\nbroken off'))).to.match(/head has no end/);
    expect(await refusal(form(file).subarray(0, -8))).to.match(/end in its boundary/);
    const parts = Array.from({ length: 1_000 }, (_, i) => part(`name="f${i}"`, ''));
    expect((await readForm(form(...parts), type)).parts).to.have.lengthOf(1_000);
    expect(await refusal(form(...parts, file))).to.match(/more than 1000 parts/);
  });
});
