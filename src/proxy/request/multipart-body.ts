import type { ApiRequest } from '../../http/operation.ts';
import type { ModelBody } from './model-body.ts';

type Form = NonNullable<ApiRequest['form']>;

/**
 * Writes another model's name in place of the one in a form. Made here, away from the form: it lives as long as the answer,
 * and a function made beside others that use the form's bytes would keep these too.
 * @param between what stands between the digits of its Content-Length and the name; `undefined` where it has none
 */
function modelWriter(between: string | undefined): ModelBody['writeModel'] {
  return (name) => (between === undefined ? name : `${Buffer.byteLength(name)}${between}${name}`);
}

/** Reads what routing needs from the fields of a form that was found valid. Files in it are not looked at. Pure. */
export function readMultipartBody({ bytes, parts }: Form): ModelBody {
  const textOf = (name: string): string | undefined => {
    const part = parts.find((candidate) => candidate.name === name);
    return part && bytes.toString('utf8', part.start, part.end);
  };
  const model = parts.find(({ name }) => name === 'model');
  const { start = 0, end = 0, lengthAt } = model ?? {};
  // its Content-Length goes with it, and what stands between the two
  const between = lengthAt === undefined ? undefined : bytes.toString('latin1', lengthAt, start).replace(/^\d+/, '');
  return {
    bytes,
    model: textOf('model'),
    stream: textOf('stream') === 'true',
    wantsUsage: false,
    wantsBase64: false,
    output: { choices: Math.max(1, Number(textOf('n')) || 1), maxTokens: undefined },
    listedTokens: 0,
    files: parts.filter(({ filename }) => filename !== undefined && filename !== ''),
    modelSpan: model && { start: lengthAt ?? start, end },
    writeModel: modelWriter(between),
    usageEdits: [],
  };
}
