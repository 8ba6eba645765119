import { expect } from 'chai';
import { bodyFor } from '../../src/proxy/model-body.ts';
import { readMultipartBody } from '../../src/proxy/multipart-body.ts';

const type = 'multipart/form-data; boundary=xYz';
const part = (disposition: string, value: string) =>
  `--xYz\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: x/y\r\n\r\n${value}\r\n`;
const file = part('name="image"; filename="model"', 'PNG\r\n--xY\0\r\nname="model"\r\n\r\nnot me');
const form = (...parts: string[]) => Buffer.from(`${parts.join('')}--xYz--\r\n`, 'latin1');

describe('the form of an image edit', () => {
  it('is read for its model and goes up byte for byte', () => {
    const bytes = form(file, part('name="model"', 'gpt-image-1'), part('name="stream"', 'true'));
    const body = readMultipartBody(bytes, type);
    expect(body).to.include({ model: 'gpt-image-1', stream: true });
    expect(bodyFor(body, 'gpt-image-1', true).equals(bytes)).to.equal(true);
  });

  it('has the model replaced by the alias and nothing else', () => {
    const body = readMultipartBody(form(part('name=model', 'fast'), file), type);
    expect(bodyFor(body, 'big-1', true).equals(form(part('name=model', 'big-1'), file))).to.equal(true);
  });

  it('may name no model, and be empty', () => {
    expect(readMultipartBody(form(file), type).model).to.equal(undefined);
    expect(readMultipartBody(Buffer.alloc(0), type).model).to.equal(undefined);
    expect(readMultipartBody(Buffer.from('--xYz\r\nbroken off'), type).model).to.equal(undefined);
  });

  it('may have its boundary quoted', () => {
    const quoted = 'multipart/form-data; charset=utf-8; boundary="xYz"';
    expect(readMultipartBody(form(part('name="model"', 'm')), quoted).model).to.equal('m');
  });

  it('is refused with two models, or without a boundary', () => {
    const twice = form(part('name="model"', 'a'), part('name="model"', 'b'));
    expect(() => readMultipartBody(twice, type)).to.throw(/'model' is given twice/);
    expect(() => readMultipartBody(twice, 'multipart/form-data')).to.throw(/boundary/);
  });
});
