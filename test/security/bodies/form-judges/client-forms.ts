import type { SentForm } from './judges.ts';

/** One form as a client writes it: its boundary and the heads of its parts. */
function written(
  boundary: string,
  options: { type?: string; field: string; file: string; before?: string; end?: string },
): SentForm {
  const { type = `multipart/form-data; boundary=${boundary}`, field, file, before = '', end = '\r\n' } = options;
  const head = (template: string, name: string, value: string) =>
    template.replaceAll('NAME', name).replaceAll('LENGTH', String(value.length));
  const part = (template: string, name: string, value: string) =>
    `--${boundary}\r\n${head(template, name, value)}\r\n\r\n${value}\r\n`;
  const text = [
    before,
    part(field, 'model', 'gpt-image-1'),
    part(field, 'prompt', 'Let it be night'),
    part(file, 'image', 'PNG \r\n\r\n data'),
    part(field, 'n', '1'),
    `--${boundary}--${end}`,
  ].join('');
  return { type, body: Buffer.from(text) };
}

const disposition = 'Content-Disposition: form-data; name="NAME"';
const plain = { field: disposition, file: `${disposition}; filename="a b;c.png"\r\nContent-Type: image/png` };

/** Forms in the words of widespread clients. */
export const clientForms: Readonly<Record<string, SentForm>> = {
  Chrome: written('----WebKitFormBoundary7MA4YWxkTrZu0gW', plain),
  Firefox: written('----geckoformboundary6b7b8a3e4c2d1f0e', {
    ...plain,
    file: `${disposition}; filename="é%22.png"\r\nContent-Type: image/png`,
  }),
  'fetch of Node (undici)': written('----formdata-undici-012345678901', plain),
  'curl -F': written('------------------------d74496d66958873e', plain),
  "Python's requests": written('0f7a3c5e9b1d4f6a8c2e0b4d6f8a1c3e', {
    ...plain,
    file: `${disposition}; filename="a.png"`,
  }),
  "Python's httpx": written('a1b2c3d4e5f60718293a4b5c6d7e8f90', plain),
  "Go's mime/multipart": written('5f2b7a6c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f70', {
    ...plain,
    file: `${disposition}; filename="a.png"\r\nContent-Type: application/octet-stream`,
  }),
  'HttpClient of .NET': written('e2b1c3d4-5f60-4718-a93a-4b5c6d7e8f90', {
    type: 'multipart/form-data; boundary="e2b1c3d4-5f60-4718-a93a-4b5c6d7e8f90"',
    field: 'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=NAME',
    file: "Content-Disposition: form-data; name=NAME; filename=a.png; filename*=utf-8''a.png",
  }),
  OkHttp: written('6d1f2c3b-4a59-4867-b5a4-938271605f4e', {
    field: `${disposition}\r\nContent-Length: LENGTH`,
    file: `${disposition}; filename="a.png"\r\nContent-Type: image/png\r\nContent-Length: LENGTH`,
  }),
  Retrofit: written('7e2a3d4c-5b6a-4978-86c5-a4b3c2d1e0f9', {
    field: `${disposition}\r\nContent-Transfer-Encoding: binary\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: LENGTH`,
    file: `${disposition}; filename="a.png"\r\nContent-Type: image/png\r\nContent-Length: LENGTH`,
  }),
  'HttpClient of Apache': written('Kx3_abcdefghijklmnopqrstuvwxyzAB', {
    type: 'multipart/form-data; boundary=Kx3_abcdefghijklmnopqrstuvwxyzAB; charset=UTF-8',
    field: `${disposition}\r\nContent-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit`,
    file: `${disposition}; filename="a.png"\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary`,
  }),
  'a mail library': written('=_part_01', {
    before: '\r\n',
    end: '\r\n\r\n',
    type: 'multipart/form-data; boundary="=_part_01"',
    field: `MIME-Version: 1.0\r\n${disposition}\r\nContent-ID: <NAME@client>`,
    file: `MIME-Version: 1.0\r\n${disposition}; filename="a.png"\r\nContent-Type: image/png\r\nContent-ID: <NAME@client>`,
  }),
  'a client that writes only the encoded file name': written('XbX', {
    ...plain,
    file: `${disposition}; filename*=UTF-8'en'%e2%82%ac.png\r\nContent-Type: image/png`,
  }),
  'a client that writes the encoded file name first': written('XbX', {
    ...plain,
    file: `${disposition}; filename*=utf-8''a.png; filename="a.png"\r\nContent-Type: image/png`,
  }),
  'a client that writes no blanks': written('XbX', {
    field: 'Content-Disposition:form-data;name="NAME"',
    file: 'Content-Disposition:form-data;name="NAME";filename="a.png"\r\nContent-Type:image/png',
  }),
  'a client that ends the disposition of a file in a semicolon': written('XbX', {
    ...plain,
    file: `${disposition}; filename="a.png";\r\nContent-Type: image/png`,
  }),
  'the form-data package': written('--------------------------593419720543815', { ...plain, end: '' }),
};

/** Forms that some readers refuse. */
export const rareForms: Readonly<Record<string, SentForm>> = {
  'an escaped quotation mark in a file name': written('XbX', {
    ...plain,
    file: `${disposition}; filename="a \\"b\\".png"\r\nContent-Type: image/png`,
  }),
  'an escaped quotation mark in a file name beside an encoded one': written('XbX', {
    ...plain,
    file: `${disposition}; filename="a\\"b.png"; filename*=utf-8''a.png`,
  }),
  'a semicolon behind the boundary': written('XbX', { ...plain, type: 'multipart/form-data; boundary=XbX;' }),
};
