import { createWriteStream, openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Argument, Option } from 'commander';
import { wholeNumber } from '../../options/kinds.ts';
import { CommandFailure, wrongUse } from '../terminal/command-failure.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { dataFrom, sendTo } from './api.ts';
import { ApiCommand, type CommandContext, noteMore } from './api-command.ts';
import { amount, count, moment, take } from './flags.ts';
import { type AnswerOf, type Input, type Operation, type OperationId, operationOf } from './operations.ts';
import { gather, type Listed, type PageQuery, type ResultPage } from './pages.ts';

/** Values by the names that openapi.yaml has for them. */
export type Values = Readonly<Record<string, unknown>>;

type Lines<Body> = (body: Body, paint: Paint, now: number, values: Values) => readonly string[];

/** What a command says of a value in another way than openapi.yaml. */
interface FlagChange {
  /** Its flags, such as `--by <dimension>`; without dashes, it is an argument. */
  readonly flags?: string;
  readonly meaning?: string;
  readonly read?: (text: string, before?: never) => unknown;
  readonly usual?: unknown;
}

/** A command that is one operation of the API. Its flags, their values and what it needs are in openapi.yaml. */
interface RowOf<Answer, Shown> {
  /** What it does, where the operation's summary is about more. */
  readonly does?: string;
  /** The same for the account that `--user` names. */
  readonly ofUser?: OperationId;
  readonly examples: readonly string[];
  /** Values that are given in another way, by their names. */
  readonly flags?: Readonly<Record<string, FlagChange>>;
  /** Values that are always the same: they have no flags. */
  readonly fixed?: Values;
  /** Whether the resource's name alone is enough. */
  readonly isDefault?: true;
  /** Makes the request's values of those that were given. */
  readonly prepare?: (context: CommandContext, values: Values) => Promise<Values>;
  /** What of the answer is shown. @default all */
  readonly picks?: (answer: Answer, context: CommandContext) => Shown | Promise<Shown>;
  readonly lines: Lines<Shown>;
  /** What to do if the answer says that there is more. */
  readonly more?: string;
}

export type Row = RowOf<never, never> & { readonly operation: OperationId };

/** A row, checked against what its operation answers. */
export function row<Id extends OperationId, Shown = AnswerOf<Id>>(
  operation: Id,
  rest: RowOf<AnswerOf<Id>, Shown>,
): Row {
  return { operation, ...rest } as unknown as Row;
}

const phrase = (text: string): string => `${text.charAt(0).toLowerCase()}${text.slice(1)}`.replaceAll('`', '');

/** The first sentence of a description. */
const gist = ({ description }: Input): string => phrase(description).replace(/\.(\s.*)?$/s, '');

const placeholders: Readonly<Record<string, string>> = { 'date-time': 'when', date: 'day', binary: 'path' };

function placeholderOf({ name, schema: { type, format } }: Input): string {
  if (name === 'user_id') return 'account';
  const word = name
    .replace(/_id$/, '')
    .replace(/^Idempotency-/, '')
    .toLowerCase();
  return placeholders[String(format)] ?? (type === 'integer' || type === 'number' ? 'n' : word);
}

function flagsOf(input: Input): string {
  const name = input.name.replace(/_id$/, '').replaceAll('_', '-').toLowerCase();
  return `--${name} <${placeholderOf(input)}>`;
}

/** What reads a value of this schema; the gateway says what else is wrong with it. */
function readerOf({ schema: { type, format, minimum, maximum } }: Input, now: () => number) {
  if (format === 'date-time') return moment(now);
  if (type === 'number') return amount;
  return type === 'integer' ? take(wholeNumber(Number(minimum ?? 0), Number(maximum ?? 1e9))) : String;
}

/** Whether it is an argument: a file, and what is needed to find the thing, unless that is only the account that has it. */
function isArgument({ name, in: place, required, schema }: Input, { path }: Operation): boolean {
  if (name === 'user_id') return path.endsWith('{user_id}');
  return schema.format === 'binary' || (required && (place === 'path' || place === 'query'));
}

/** What the command line has for a value. */
interface Given {
  readonly name: string;
  /** As it is typed. */
  readonly typed: string;
  readonly taken: Argument | Option;
}

/** Lists are put together of their pages, so both mean more than in one request. */
const ofLists: Readonly<Record<string, FlagChange>> = {
  limit: { meaning: 'how many at most', read: count, usual: 20 },
  after: { flags: '--after <id>', meaning: 'those that follow this one' },
};

function givenFor(input: Input, operation: Operation, changed: FlagChange | undefined, terminal: Terminal): Given {
  const { name, schema } = input;
  const { flags, meaning, read = readerOf(input, terminal.now), usual } = changed ?? ofLists[name] ?? {};
  const description = meaning ?? gist(input);
  const isPositional = flags === undefined ? isArgument(input, operation) : !flags.startsWith('-');
  const taken = isPositional
    ? new Argument(flags ?? `<${placeholderOf(input)}>`, description)
    : new Option(flags ?? flagsOf(input), description);
  taken.argParser(read as (text: string) => unknown);
  if (Array.isArray(schema.enum)) taken.choices(schema.enum);
  const byDefault = usual ?? (input.required ? undefined : schema.default);
  if (byDefault !== undefined) taken.default(byDefault);
  else if (taken instanceof Option) taken.makeOptionMandatory(input.required);
  return { name, typed: taken instanceof Option ? (taken.long ?? '') : `<${taken.name()}>`, taken };
}

const fileReader = new Argument('<path>', 'where to write it; a file that is there is kept');

/** A command of the table. @param name what is typed for it, after the name of the resource */
export function operationCommand(terminal: Terminal, name: string, row: Row): ApiCommand {
  const operation = operationOf(row.operation);
  const { inputs, scope, description, method, path } = operation;
  const given: Given[] = inputs
    .filter((input) => !Object.hasOwn(row.fixed ?? {}, input.name))
    .map((input) => givenFor(input, operation, row.flags?.[input.name], terminal));
  const needs = `needs a key with the scope ${scope}`;
  const does = row.does ?? phrase(operation.summary);
  const text = description.trim().replaceAll(/(?<!\n)\n(?!\n)/g, ' ');
  const about = `${text}\n\nIt ${needs}, and calls ${method.toUpperCase()} ${path}.`;
  const command = new ApiCommand(terminal, name, about).summary(scope === 'admin' ? `${does}; ${needs}` : does);
  for (const { taken } of given) {
    if (taken instanceof Option) command.addOption(taken);
    else command.addArgument(taken);
  }
  if (row.ofUser) command.option('--user <account>', 'of this account; needs a key with the scope admin');
  if (operation.answersFile) command.addArgument(fileReader);
  return command.examples(...row.examples).runs(async (context, ...typed: unknown[]) => {
    const options = typed.pop() as { readonly user?: string } & Values;
    const positional = [...typed];
    const values = {
      ...row.fixed,
      ...Object.fromEntries(
        given.map(({ name, taken }) => [
          name,
          taken instanceof Option ? options[taken.attributeName()] : positional.shift(),
        ]),
      ),
    };
    try {
      const [target, ofUser] =
        row.ofUser && options.user !== undefined
          ? ([operationOf(row.ofUser), { user_id: options.user }] as const)
          : ([operation, {}] as const);
      if (!operation.answersFile) return await showAnswer(context, row, target, { ...values, ...ofUser });
      await saveTo(String(positional[0]), await request(context, target, values, asBytes), context.terminal);
    } catch (error) {
      throw namingOption(error, given);
    }
  });
}

async function showAnswer(context: CommandContext, row: Row, operation: Operation, given: Values): Promise<void> {
  const values = row.prepare ? await row.prepare(context, given) : given;
  const isList = operation.inputs.some(({ name }) => name === 'after') && !Object.hasOwn(row.fixed ?? {}, 'after');
  const send = (query: object) => request(context, operation, { ...values, ...query });
  const answer = isList
    ? await gather(Number(values.limit), send as PageOf, values.after as string | undefined)
    : await send({});
  const shown = row.picks ? await row.picks(answer as never, context) : answer;
  context.show(shown as never, (body, paint, now) => row.lines(body, paint, now, values));
  if (isList) noteMore(answer as ResultPage<Listed>, context.terminal);
  else if (row.more && (answer as { has_more?: boolean }).has_more) context.terminal.printNote(row.more);
}

type PageOf = (query: PageQuery) => Promise<ResultPage<Listed>>;

/** Sends one request with these values, each where openapi.yaml wants it. */
export async function request(
  { api }: CommandContext,
  operation: Operation,
  values: Values,
  more = {},
): Promise<unknown> {
  const { method, path, inputs, isForm } = operation;
  const parts: Record<Input['in'], Record<string, unknown>> = { path: {}, query: {}, header: {}, body: {} };
  const form = new FormData();
  for (const { name, in: place, schema } of inputs) {
    const value = values[name];
    if (value === undefined) continue;
    parts[place][name] = Array.isArray(value) && place === 'query' ? value.join(',') : value;
    if (!isForm) continue;
    if (schema.format === 'binary') form.append(name, await fileAt(String(value)), basename(String(value)));
    else form.append(name, String(value));
  }
  const { body, ...params } = parts;
  const hasBody = inputs.some(({ in: place }) => place === 'body');
  const init = { params, ...(hasBody && { body }), ...(isForm && { bodySerializer: () => form }), ...more };
  return dataFrom(sendTo(api)(method, path, init));
}

/** A file on the disk, which is read when it is sent. @throws CommandFailure where there is none */
async function fileAt(path: string): Promise<Blob> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) throw wrongUse(`There is no file ${path}.`);
  return openAsBlob(path);
}

/** Asks for the bytes of an answer, whatever they are, as they come. */
export const asBytes = { parseAs: 'stream', headers: { accept: '*/*' } } as const;

/** Writes what comes to a file. @throws Error if it is there already */
export async function saveTo(path: string, content: unknown, { print }: Terminal): Promise<void> {
  const written = createWriteStream(path, { flags: 'wx' });
  await pipeline(Readable.fromWeb(content as Parameters<typeof Readable.fromWeb>[0]), written);
  print(`${path}: ${written.bytesWritten.toLocaleString('en-US')} bytes`);
}

/** The same error with what was typed for the value that it is about. */
function namingOption(error: unknown, given: readonly Given[]): unknown {
  if (!(error instanceof CommandFailure) || error.param === undefined) return error;
  const typed = given.find(({ name }) => name === error.param)?.typed;
  if (typed !== undefined) error.message += `\nIt is given as ${typed}.`;
  return error;
}
