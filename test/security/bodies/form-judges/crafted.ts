import type { SentForm } from './judges.ts';

const plainType = 'multipart/form-data; boundary=XbX';
const image = 'Content-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\nPNG';
const prompt = field('prompt', 'Let it be night');

function field(name: string, value: string): string {
  return `Content-Disposition: form-data; name="${name}"\r\n\r\n${value}`;
}

/** Parts with a boundary around each. */
function parts(contents: readonly string[], boundary = 'XbX', newline = '\r\n'): string {
  return `${contents.map((content) => `--${boundary}${newline}${content}${newline}`).join('')}--${boundary}--${newline}`;
}

function withParts(...contents: string[]): SentForm {
  return { type: plainType, body: Buffer.from(parts([image, prompt, ...contents]), 'latin1') };
}

function withHead(head: string, value = 'zz'): SentForm {
  return withParts(`${head}\r\n\r\n${value}`);
}

const cheap = field('model', 'cheap');
const disposition = 'Content-Disposition: form-data; ';
const normal = parts([image, prompt, cheap]);
const typed = (type: string, body = normal): SentForm => ({ type, body: Buffer.from(body, 'latin1') });

/** Forms that name one model for some readers and another, or none, for others. */
export const craftedForms: Readonly<Record<string, SentForm>> = {
  'a boundary inside a quoted parameter': typed(
    'multipart/form-data; x="; boundary=XbX"; boundary=YbY',
    `${normal}\r\n${parts([image, prompt, field('model', 'zz')], 'YbY')}`,
  ),
  'two boundaries': typed('multipart/form-data; boundary=XbX; boundary=YbY'),
  'an encoded boundary': typed("multipart/form-data; boundary*=utf-8''XbX; boundary=XbX"),
  'a boundary with an escape': typed('multipart/form-data; boundary="X\\bX"'),
  'a boundary with blanks behind it': typed('multipart/form-data; boundary="XbX "'),
  'a boundary of more than 70 characters': typed(
    `multipart/form-data; boundary=${'b'.repeat(71)}`,
    parts([image, prompt, cheap], 'b'.repeat(71)),
  ),
  'no boundary': typed('multipart/form-data'),
  'a charset of the whole form': typed('multipart/form-data; charset=utf-16; boundary=XbX'),
  'a model that is a file without a name': withHead(`${disposition}name="model"; filename=""`),
  'a model that is a file': withHead(`${disposition}name="model"; filename="x"`),
  'a model that is a file by its encoded name': withHead(`${disposition}name="model"; filename*=utf-8''x`),
  'a model of raw bytes': withHead(`${disposition}name="model"\r\nContent-Type: application/octet-stream`),
  'a model in another charset': withHead(
    `${disposition}name="model"\r\nContent-Type: text/plain; charset=utf-16le`,
    'z\0z\0',
  ),
  'a model in Latin-1': withHead(`${disposition}name="model"\r\nContent-Type: text/plain; charset=iso-8859-1`, 'z\xe9'),
  'a model that is no UTF-8': withHead(`${disposition}name="model"`, 'z\xff'),
  'a model behind a byte order mark': withHead(`${disposition}name="model"`, '\xef\xbb\xbfzz'),
  'a model in quoted-printable': withHead(
    `${disposition}name="model"\r\nContent-Transfer-Encoding: quoted-printable`,
    '=7A=7A',
  ),
  'a model in base64': withHead(`${disposition}name="model"\r\nContent-Transfer-Encoding: base64`, 'eno='),
  'a model with a wrong length': withHead(`${disposition}name="model"\r\nContent-Length: 1`),
  'a folded head': withHead(`${disposition}\r\n name="model"`),
  'a head folded by a tab': withHead(`Content-Disposition: form-data;\r\n\tname="model"`),
  'an encoded name': withHead(`${disposition}name*=utf-8''model`),
  'an encoded name beside a plain one': withHead(`${disposition}name="x"; name*=utf-8''model`),
  'a name inside a quoted parameter': withHead(`${disposition}x="; name=zz"; name="model"`),
  'a name inside a file name': withHead(`${disposition}filename="a\\"; name=\\"model"; name="x"`),
  'a field whose disposition ends in a semicolon': withHead(`${disposition}name="model";`),
  'a name behind an escaped quotation mark': withHead(`${disposition}name="x"; filename="a\\"; name=\\"model\\""`),
  'an unquoted name behind an escaped quotation mark': withHead(`${disposition}name="x"; filename="a\\"; name=model"`),
  'an encoded file name in quotation marks': withHead(`${disposition}name="model"; filename*="utf-8''x"`),
  'two encoded file names': withHead(`${disposition}name="x"; filename*=utf-8''a; filename*=utf-8''b`),
  'two names': withHead(`${disposition}name="x"; name="model"`),
  'a name in blanks': withHead(`${disposition}name = "model"`),
  'a name with blanks around it': withHead(`${disposition}name=" model "`),
  'a name in other letters': withHead(`${disposition}name="Model"`),
  'a name that ends in NUL': withHead(`${disposition}name="model\0"`),
  'a name in percent encoding': withHead(`${disposition}name="%6dodel"`),
  'a name with an escape': withHead(`${disposition}name="mo\\del"`),
  'a name with brackets': withHead(`${disposition}name="model[]"`),
  'a name with a broken escape': withHead(`${disposition}name="model%"`),
  'no quotation mark at the end of a name': withHead(`${disposition}name="model`),
  'apostrophes around a name': withHead(`${disposition}name='model'`),
  'a parameter that nobody knows': withHead(`${disposition}name="model"; x=y`),
  'a disposition that is no form-data': withHead('Content-Disposition: attachment; name="model"'),
  'two dispositions': withHead(`${disposition}name="x"\r\n${disposition}name="model"`),
  'no disposition': withHead('Content-Type: text/plain'),
  'blanks before the colon of a head': withHead('Content-Disposition : form-data; name="model"'),
  'a head that nobody knows': withHead(`${disposition}name="model"\r\nX-Y: z`),
  'two models': withParts(cheap, field('model', 'zz')),
  'a charset field': withParts(field('_charset_', 'utf-16'), cheap),
  'a form in a form': withHead(
    `${disposition}name="x"\r\nContent-Type: multipart/mixed; boundary=YbY`,
    parts([field('model', 'zz')], 'YbY'),
  ),
  'lines that end in LF': typed(plainType, parts([image, prompt, cheap], 'XbX', '\n')),
  'lines that end in CR': typed(plainType, parts([image, prompt, cheap], 'XbX', '\r')),
  'a head that ends in LF': withParts(`${disposition}name="model"\n\nzz`),
  'a boundary behind a single LF': withParts(`${disposition}name="x"\r\n\r\na\n--XbX\r\n${field('model', 'zz')}`),
  'a boundary behind a single CR': withParts(`${disposition}name="x"\r\n\r\na\r--XbX\r\n${field('model', 'zz')}`),
  'a longer boundary': withParts(`${disposition}name="x"\r\n\r\na\r\n--XbXX\r\n${field('model', 'zz')}`),
  'a boundary followed by blanks': withParts(`${disposition}name="x"\r\n\r\na\r\n--XbX \t\r\n${field('model', 'zz')}`),
  'a boundary followed by text': withParts(`${disposition}name="x"\r\n\r\na\r\n--XbX-y\r\n${field('model', 'zz')}`),
  'a boundary at the start of a content': withParts(`${disposition}name="x"\r\n\r\n--XbX\r\n${field('model', 'zz')}`),
  'something before the first boundary': typed(plainType, `--YbY\r\n${normal}`),
  'text before the first boundary': typed(plainType, `A form.\r\n${normal}`),
  'more blank lines than any client writes': typed(plainType, `${'\r\n'.repeat(101)}${normal}`),
  'a blank line of LF': typed(plainType, `\n${normal}`),
  'parts behind the end': typed(plainType, `${normal}${parts([field('model', 'zz')])}`),
  'blanks behind the end': typed(plainType, `${normal.slice(0, -2)}  \r\n`),
  'no end': typed(plainType, normal.slice(0, -4)),
  'no end of the last part': typed(plainType, normal.slice(0, -10)),
  'a head without an end': typed(plainType, `--XbX\r\n${disposition}name="model"\r\n--XbX--\r\n`),
  'a stream that only some read': withParts(field('stream', 'True')),
  'a stream of 1': withParts(field('stream', '1')),
  'a number in other digits': withParts(field('n', '0x10')),
  'a number with a sign': withParts(field('n', '+2')),
  'a number with a fraction': withParts(field('n', '2.0')),
  'two numbers': withParts(field('n', '1'), field('n', '9')),
};
