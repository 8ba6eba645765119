import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
// with zod, one definition gives the parser, its type and its errors. It is maintained, typed throughout,
// has no dependency, and is bundled, so no host installs it.
import * as z from 'zod';
import { parseDuration } from './duration.ts';

/** Turns the text of a variable into its value. */
export type Parser<T = unknown> = z.ZodType<T, string>;

const words = z.registry<{ readonly allowed: string }>();

/** @param allowed completes the sentence "must be …" */
function named<P extends Parser>(allowed: string, parser: P): P {
  words.add(parser, { allowed });
  return parser;
}

/** What a parser takes, in words that complete the sentence "must be …". */
export function allowedBy(parser: Parser): string {
  return words.get(parser)?.allowed ?? '';
}

export function wholeNumber(min: number, max: number) {
  const digits = z.string().regex(/^\d+$/);
  return named(`a whole number from ${min} to ${max}`, digits.transform(Number).pipe(z.number().min(min).max(max)));
}

/** Credits, to a millionth. */
export function amount(max: number) {
  const decimals = z.string().regex(/^\d+(\.\d{1,6})?$/);
  return named(`an amount from 0 to ${max}, such as 2.5`, decimals.transform(Number).pipe(z.number().max(max)));
}

export function oneOf<const T extends readonly string[]>(...values: T) {
  return named(`one of ${values.join(', ')}`, z.string().pipe(z.enum(values)));
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text.trimStart().startsWith('{') ? text : readFileSync(text, 'utf8'));
  } catch {
    return undefined;
  }
}

/** JSON as it stands in the variable, or in the file that is named there. */
export const jsonObject = named(
  'a JSON object, or the path of a file with one',
  z.string().transform(readJson).pipe(z.record(z.string(), z.unknown())),
);

export const yesOrNo = named(
  'true or false',
  z.stringbool({ truthy: ['true', '1', 'yes', 'on'], falsy: ['false', '0', 'no', 'off'] }),
);

export function textOf(pattern: RegExp, allowed: string) {
  return named(allowed, z.string().regex(pattern));
}

/** @param min milliseconds, as `max` */
export function duration(min: number, max: number, allowed: string) {
  return named(allowed, z.string().transform(parseDuration).pipe(z.number().min(min).max(max)));
}

/** Several values with commas between them; every one must be good, and `none` is the empty list. */
export function listOf<T>(item: Parser<T>, maxItems: number, allowed: string) {
  const split = (text: string) => (text === 'none' ? [] : text.split(',').map((part) => part.trim()));
  return named(allowed, z.string().transform(split).pipe(z.array(item).max(maxItems)));
}

export const httpUrl = named(
  'an http or https URL, /v1 included, such as https://api.openai.com/v1',
  z
    .string()
    .regex(/^https?:\/\//i)
    .refine((text) => URL.canParse(text)),
);

/** Whether it is an origin as browsers send it; those of apps and extensions have schemes of their own. RFC 6454, section 6.1 */
function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, host } = new URL(text);
  return host !== '' && !host.includes('*') && text === `${protocol}//${host}`;
}

/** Origins, or `*` alone, which stands for every one. */
export function originsOrAny(maxItems: number) {
  const allowed =
    'origins without a path or a slash at the end, such as https://app.example.com,http://localhost:5173, or * for every origin';
  const origins = listOf(
    z.string().refine((text) => text === '*' || isOrigin(text)),
    maxItems,
    allowed,
  );
  return named(
    allowed,
    origins.refine((items) => items.length === 1 || !items.includes('*')),
  );
}

function isNetwork(text: string): boolean {
  const [address = '', bits = '', ...others] = text.split('/');
  const version = isIP(address);
  if (version === 0 || !/^\d{1,3}$/.test(bits) || others.length > 0) return false;
  try {
    new BlockList().addSubnet(address, Number(bits), version === 4 ? 'ipv4' : 'ipv6');
    return true;
  } catch {
    return false;
  }
}

export const network = named('a network such as 10.0.0.0/8', z.string().refine(isNetwork));
