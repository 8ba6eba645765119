import { GatewayError } from '../errors.ts';
import type { Span } from './json-scan.ts';
import type { ModelBody } from './model-body.ts';

/** The boundary between the parts of a form (RFC 2046, section 5.1.1). @throws GatewayError `invalid_value` */
function boundaryOf(contentType: string): string {
  const [, quoted, plain] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  if (boundary) return boundary;
  throw new GatewayError('invalid_value', 'content-type: must have the boundary of the form', {
    param: 'content-type',
  });
}

/** The name of a field that is no file, from the head of its part (RFC 7578, section 4.2). */
function fieldName(head: string): string | undefined {
  const disposition = /^content-disposition:\s*form-data\s*(;[^\r\n]*)$/im.exec(head)?.[1];
  if (disposition === undefined || /;\s*filename\*?=/i.test(disposition)) return undefined;
  const [, quoted, plain] = /;\s*name=(?:"([^"]*)"|([^\s;]+))/i.exec(disposition) ?? [];
  return quoted ?? plain;
}

/** Finds the values of some fields of a form. @throws GatewayError `duplicate_parameter` when one stands there twice */
function findFields<Name extends string>(
  bytes: Buffer,
  boundary: string,
  names: readonly Name[],
): Partial<Record<Name, Span>> {
  const found: Partial<Record<Name, Span>> = {};
  const delimiter = `\r\n--${boundary}`;
  let at = bytes.indexOf(delimiter.slice(2));
  while (at !== -1) {
    const headEnd = bytes.indexOf('\r\n\r\n', at);
    if (headEnd === -1) break;
    const start = headEnd + 4;
    const end = bytes.indexOf(delimiter, headEnd + 2);
    if (end === -1) break;
    const name = fieldName(bytes.toString('latin1', at, headEnd)) as Name | undefined;
    if (name !== undefined && names.includes(name)) {
      if (found[name]) throw new GatewayError('duplicate_parameter', `'${name}' is given twice`, { param: name });
      found[name] = { start, end: Math.max(start, end) };
    }
    at = end + 2;
  }
  return found;
}

/**
 * Reads what routing needs from the fields of a form. Files in it are not looked at. Pure.
 * @throws GatewayError `duplicate_parameter`, `invalid_value`
 */
export function readMultipartBody(bytes: Buffer, contentType: string): ModelBody {
  const found = findFields(bytes, boundaryOf(contentType), ['model', 'stream']);
  const textAt = (span: Span | undefined): string | undefined => span && bytes.toString('utf8', span.start, span.end);
  return {
    bytes,
    model: textAt(found.model),
    stream: textAt(found.stream) === 'true',
    wantsUsage: false,
    wantsBase64: false,
    modelSpan: found.model,
    writeModel: (name) => name,
    usageEdits: [],
  };
}
