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

const headerNames: ReadonlySet<string> = new Set([
  'content-disposition',
  'content-type',
  'content-length',
  'content-transfer-encoding',
]);

const line = /^([A-Za-z-]+): ([\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)$/;

const name = String.raw`(?:"([\w$@:%./[\]-]{1,256})"|([\w$.-]{1,256}))`;
/** A backslash before a quotation mark ends the text for some readers, and not for others. */
const filename = String.raw`(?:"((?:[^"\\]|\\(?!"))*)"|([\w.!#$&+^~-]+))`;
const encodedFilename = String.raw`utf-8''(?:[\w.!~-]|%[0-9a-f]{2})+`;
const disposition = new RegExp(
  `^form-data; name=${name}(?:; filename=${filename}(?:; filename\\*=${encodedFilename})?)?$`,
  'i',
);

/** The values of the headers by name, or a text that says what is wrong with them. */
function readLines(head: string): Map<string, { at: number; value: string }> | string {
  const headers = new Map<string, { at: number; value: string }>();
  let at = 0;
  for (const text of head.split('\r\n')) {
    const [, given = '', value = ''] = line.exec(text) ?? [];
    const header = given.toLowerCase();
    if (!headerNames.has(header)) return `may have the headers ${[...headerNames].join(', ')} only, each in one line`;
    if (headers.has(header)) return `has the header ${header} twice`;
    headers.set(header, { at: at + text.length - value.length, value });
    at += text.length + 2;
  }
  return headers;
}

/**
 * Reads the head of a part. Accepts only what every reader understands alike. Pure.
 * @param bytes without the empty line at its end
 * @returns the head, or a text that says what is wrong with it, to follow `part 2`
 */
export function readPartHead(bytes: Buffer): PartHead | string {
  if (!isUtf8(bytes)) return 'must have a head in UTF-8';
  const headers = readLines(bytes.toString('latin1'));
  if (typeof headers === 'string') return headers;

  const match = disposition.exec(headers.get('content-disposition')?.value ?? '');
  if (!match?.[0].startsWith('form-data; name=')) {
    return 'must have Content-Disposition: form-data; name="…" and, for a file, ; filename="…" and nothing else; names are letters, digits and _$@:%./[]-';
  }
  const encoding = headers.get('content-transfer-encoding')?.value.toLowerCase() ?? 'binary';
  if (!/^(binary|8bit|7bit)$/.test(encoding)) return 'must be sent without a transfer encoding';
  const length = headers.get('content-length');
  if (length && !/^\d{1,10}$/.test(length.value)) return 'has a Content-Length that is no number';
  const type = headers.get('content-type')?.value.toLowerCase();
  if (type?.startsWith('multipart/')) return 'must not have parts of its own';
  return {
    name: match[1] ?? match[2] ?? '',
    filename: match[3] ?? match[4],
    type,
    length: length && { at: length.at, digits: length.value },
  };
}
