import fc from 'fast-check';
import type { SentForm } from './judges.ts';

const boundary = 'XbX-0123456789';

const names = [
  'model',
  'stream',
  'n',
  'Model',
  'model ',
  'model[]',
  'mod%65l',
  'user',
  'image[]',
  'size',
  '_charset_',
  'prompt',
];
const values = [
  'cheap',
  'zz',
  'true',
  'false',
  'True',
  '1',
  '2',
  '02',
  '',
  'a\r\nb',
  'é',
  '\ufeffzz',
  `--${boundary}`,
  `\n--${boundary}\n`,
];
const dispositions = [
  (name: string) => `form-data; name="${name}"`,
  (name: string) => `form-data; name="${name}"; filename="a.png"`,
  (name: string) => `form-data; name="${name}"; filename=""`,
  (name: string) => `form-data; name="${name}"; filename="a.png"; filename*=utf-8''a.png`,
  (name: string) => `form-data; name="x"; name="${name}"`,
  (name: string) => `form-data; x="; name=zz"; name="${name}"`,
  (name: string) => `form-data; name*=utf-8''${name}`,
  (name: string) => `form-data;name="${name}"`,
  (name: string) => `form-data;\r\n name="${name}"`,
];
const heads = [
  'Content-Type: text/plain',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Type: text/plain; charset=iso-8859-1',
  'content-type: application/json',
  'Content-Type: application/octet-stream',
  'Content-Transfer-Encoding: binary',
  'Content-Transfer-Encoding: base64',
  'Content-Transfer-Encoding: quoted-printable',
  'Content-Disposition: form-data; name="model"',
  'Content-Length: 5',
  'X-Other: a',
];
const types = [
  `multipart/form-data; boundary=${boundary}`,
  `multipart/form-data; boundary="${boundary}"`,
  `multipart/form-data;boundary=${boundary}; charset=utf-8`,
  `multipart/form-data; charset=UTF-8; boundary=${boundary}`,
  `Multipart/Form-Data; Boundary=${boundary}`,
  `multipart/form-data; boundary=zz; boundary=${boundary}`,
  `multipart/form-data; x="; boundary=zz"; boundary=${boundary}`,
];
/** What is put in, or stands for what is taken out. */
const pieces = [
  '',
  '\r',
  '\n',
  '\r\n',
  '\0',
  '"',
  '\\',
  ';',
  ' ',
  '\t',
  '=',
  '%22',
  '*',
  '--',
  `--${boundary}`,
  `\r\n--${boundary}\r\n`,
  '; name="model"',
  '\r\nContent-Disposition: form-data; name="model"',
];

/** Mostly the first of them, which is the usual one. */
function mostly<T>(choices: readonly T[], share: number): fc.Arbitrary<T> {
  return fc.oneof(
    { weight: share, arbitrary: fc.constant(choices[0] as T) },
    { weight: 1, arbitrary: fc.constantFrom(...choices) },
  );
}

const newline = mostly(['\r\n', '\n', '\r'], 20);

const part = fc
  .record({
    name: fc.constantFrom(...names),
    disposition: mostly(dispositions, 8),
    more: fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.array(fc.constantFrom(...heads), { maxLength: 2 }) },
    ),
    value: fc.constantFrom(...values),
    newline,
  })
  .map(({ name, disposition, more, value, newline: end }) =>
    [`Content-Disposition: ${disposition(name)}`, ...more, '', value].join(end),
  );

const model = fc
  .constantFrom('cheap', 'gpt-image-1', 'a"b;c\\', '模型')
  .map((name) => `Content-Disposition: form-data; name="model"\r\n\r\n${name}`);
const wanted = [
  'Content-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\nPNG',
  'Content-Disposition: form-data; name="prompt"\r\n\r\nLet it be night',
];

const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.nat(3),
  piece: fc.constantFrom(...pieces),
});

/** Forms near to those that clients send: one in some is one, the others were changed somewhere. */
export const mutatedForms: fc.Arbitrary<SentForm> = fc
  .record({
    type: mostly(types, 4),
    parts: fc
      .tuple(fc.array(model, { maxLength: 1 }), fc.array(part, { maxLength: 3 }))
      .chain((more) => fc.shuffledSubarray([...wanted, ...more.flat()], { minLength: 2 + more.flat().length })),
    newline,
    edits: fc.oneof(
      { weight: 2, arbitrary: fc.constant([]) },
      { weight: 3, arbitrary: fc.array(edit, { maxLength: 2 }) },
    ),
    before: mostly(['', '\r\n', 'a\r\n'], 20),
    after: mostly(['', '\r\n', ' ', 'a'], 10),
  })
  .map(({ type, parts, newline: end, edits, before, after }) => {
    const text = `${before}${parts.map((one) => `--${boundary}${end}${one}${end}`).join('')}--${boundary}--${end}${after}`;
    let body = Buffer.from(text, 'utf8');
    for (const { at, length, piece } of edits) {
      const start = Math.floor(at * body.length);
      body = Buffer.concat([body.subarray(0, start), Buffer.from(piece), body.subarray(start + length)]);
    }
    return { type, body };
  });
