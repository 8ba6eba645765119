import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { GatewayError } from '../../errors.ts';
import { refuseOption } from '../../options/checks.ts';
import { checkUpstreams, type UpstreamOptions } from '../../options/models/upstreams.ts';

const variable = 'UPSTREAMS_FILE';

type Environment = Readonly<Record<string, string | undefined>>;

/** A place in the file: `[0].headers.api-key`. */
function placeOf(path: readonly PropertyKey[]): string {
  return path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('');
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // a parser's message quotes the text, which may hold a key
    return refuseOption(variable, code ? `${file} cannot be read (${code})` : `${file} is not JSON`);
  }
}

/** A list of upstreams. A key or a header can come from an environment variable: `{ "env": "OPENAI_API_KEY" }`. */
function upstreamsSchema(env: Environment) {
  const fromEnvironment = z.strictObject({ env: z.string() }).transform(({ env: name }, context) => {
    const value = env[name];
    if (value) return value;
    // somebody may have put the key where its name belongs; the log must not show it
    const isName = /^[A-Z_][A-Z0-9_]*$/.test(name);
    context.addIssue(
      isName ? `names the variable ${name}, which is not set` : 'must name a variable, such as OPENAI_API_KEY',
    );
    return z.NEVER;
  });
  const printable = z.string().regex(/^[\x20-\x7e]+$/);
  const secret = z.union([printable, fromEnvironment], {
    error: () => 'must be text in printable ASCII, or an object such as { "env": "OPENAI_API_KEY" }',
  });
  const upstream = z.looseObject(
    { apiKey: secret.optional(), headers: z.record(z.string(), secret, { error: 'must be an object' }).optional() },
    { error: 'must be an object' },
  );
  return z.array(upstream, { error: 'must be a list of upstreams' }).min(1, { error: 'must have an upstream' });
}

/** What a union says of itself, or what the only variant that was meant says. */
function messageOf(issue: z.core.$ZodIssue): string {
  const inner = issue.code === 'invalid_union' ? issue.errors.flat().find(({ code }) => code === 'custom') : undefined;
  return inner?.message ?? issue.message;
}

/**
 * Reads the upstreams that a JSON file lists, by the fields of the option `upstreams`.
 * @throws GatewayError `invalid_options`; `param` is `UPSTREAMS_FILE`, the message names the file and the field
 */
export function readUpstreamsFile(file: string, env: Environment): readonly UpstreamOptions[] {
  const { data, error } = upstreamsSchema(env).safeParse(readJson(file));
  if (!data) {
    const [issue] = error.issues as [z.core.$ZodIssue];
    return refuseOption(variable, `${file}${placeOf(issue.path)} ${messageOf(issue)}`);
  }
  const upstreams = data as unknown as readonly UpstreamOptions[];
  try {
    checkUpstreams(upstreams);
  } catch (cause) {
    if (!(cause instanceof GatewayError)) throw cause;
    refuseOption(variable, cause.message.replace(/^upstreams(.*?): /s, `${file}$1 `));
  }
  return upstreams;
}
