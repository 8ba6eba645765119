import { isUtf8 } from 'node:buffer';

/** The head of a part (RFC 7578, section 4). */
export interface PartHead {
  readonly name: string;
  /** `undefined` for a field; '' for an empty file input. */
  readonly filename: string | undefined;
  /** The value of Content-Type, in lower case. */
  readonly type: string | undefined;
  /** The position in the head and the value of Content-Length. */
  readonly length: { readonly at: number; readonly digits: string } | undefined;
}

/** Those that mean something, and those of mail that every reader ignores. */
const headerNames: ReadonlySet<string> = new Set([
  'content-disposition',
  'content-type',
  'content-length',
  'content-transfer-encoding',
  'content-id',
  'mime-version',
]);

const line = /^([A-Za-z-]+):[ \t]*([\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)$/;

/** The values of the headers by name, or a text that says what is wrong with them. */
function readLines(head: string): Map<string, { at: number; value: string }> | string {
  const headers = new Map<string, { at: number; value: string }>();
  let at = 0;
  for (const text of head.split('\r\n')) {
    const [, given = '', value = ''] = line.exec(text) ?? [];
    const header = given.toLowerCase();
    if (header === '') {
      return 'must have each header in one line, as its name, a colon and its value, without tabs or blanks at its end';
    }
    if (!headerNames.has(header)) return `has the header ${given}; it may have ${[...headerNames].join(', ')} only`;
    if (headers.has(header)) return `has the header ${header} twice`;
    headers.set(header, { at: at + text.length - value.length, value });
    at += text.length + 2;
  }
  return headers;
}

const disposition = 'form-data';

/** What each parameter may be, and how an error says it. Of a name, only what every reader takes alike. */
const parameterForms: Readonly<Record<string, { readonly fits: (text: string) => boolean; readonly wanted: string }>> =
  {
    name: {
      fits: (text) => /^[\w$@:%./[\]-]{1,256}$/.test(text),
      wanted: '1 to 256 letters, digits and _$@:%./[]-',
    },
    filename: {
      // behind an escaped quotation mark, some readers take what follows a semicolon for the next parameter
      fits: (text) => !(text.includes('\\"') && text.includes(';')),
      wanted: 'a text that has not both \\" and a semicolon',
    },
    'filename*': {
      // RFC 8187, section 3.2
      fits: (text) => /^utf-8'[\w-]*'(?:[\w.!#$&+^`|~-]|%[0-9a-f]{2})+$/i.test(text),
      wanted: "utf-8'' and a percent-encoded text",
    },
  };

/** What may stand there without quotation marks. */
const words: Readonly<Record<string, RegExp>> = {
  name: /^[\w$.-]+$/,
  filename: /^[\w.!#$&+^~-]+$/,
};

/** The parameters of Content-Disposition by name, or a text that says what is wrong with them. */
function readDisposition(value: string): ReadonlyMap<string, string> | string {
  const found = new Map<string, string>();
  // a text in quotation marks or a word; where it is empty, nothing may follow (RFC 6266, section 4.1)
  const parameter = /; *(?:([\w*-]+)=(?:"((?:[^"\\]|\\"|\\(?!"))*)"|([^\s";]+))|$)/y;
  const isFormData = value.slice(0, disposition.length).toLowerCase() === disposition;
  parameter.lastIndex = disposition.length;
  while (isFormData && parameter.lastIndex < value.length) {
    const [all, given, quoted, word] = parameter.exec(value) ?? [];
    if (all === undefined) return 'has a parameter of Content-Disposition that is not name="value"';
    if (given === undefined) {
      // busboy drops such a part, which would hide a field from some readers
      if (!found.has('filename') && !found.has('filename*')) {
        return 'has a semicolon at the end of Content-Disposition, which only a file may have';
      }
      break;
    }
    const key = given.toLowerCase();
    const rule = Object.hasOwn(parameterForms, key) ? parameterForms[key] : undefined;
    if (!rule)
      return `has the parameter ${given} in Content-Disposition; it may have name, filename and filename* only`;
    if (found.has(key)) return `has the parameter ${key} twice in Content-Disposition`;
    if (found.size === 0 && key !== 'name') return 'must have name as the first parameter of Content-Disposition';
    const text = quoted ?? word ?? '';
    const isWritten = key === 'filename*' ? quoted === undefined : word === undefined || words[key]?.test(word);
    if (!isWritten || !rule.fits(text)) return `must have as ${key} in Content-Disposition ${rule.wanted}`;
    found.set(key, text);
  }
  return found.has('name') ? found : 'must have Content-Disposition: form-data; name="…"';
}

/**
 * Reads the head of a part. Accepts only what every reader understands alike, or refuses. Pure.
 * @param bytes without the empty line at its end
 * @returns the head, or a text that says what is wrong with it, to follow `part 2`
 */
export function readPartHead(bytes: Buffer): PartHead | string {
  if (!isUtf8(bytes)) return 'must have a head in UTF-8';
  const headers = readLines(bytes.toString('latin1'));
  if (typeof headers === 'string') return headers;

  const parameters = readDisposition(headers.get('content-disposition')?.value ?? '');
  if (typeof parameters === 'string') return parameters;
  const encoding = headers.get('content-transfer-encoding')?.value.toLowerCase() ?? 'binary';
  if (!/^(binary|8bit|7bit)$/.test(encoding)) return 'must be sent without a transfer encoding';
  const length = headers.get('content-length');
  if (length && !/^\d{1,10}$/.test(length.value)) return 'has a Content-Length that is no number';
  const type = headers.get('content-type')?.value.toLowerCase();
  if (type?.startsWith('multipart/')) return 'must not have parts of its own';
  return {
    name: parameters.get('name') ?? '',
    filename: parameters.get('filename') ?? parameters.get('filename*'),
    type,
    length: length && { at: length.at, digits: length.value },
  };
}
