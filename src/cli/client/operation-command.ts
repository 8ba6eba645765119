import { openAsBlob } from 'node:fs';
import { open, rm, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Argument, Option } from 'commander';
import { wholeNumber } from '../../options/kinds.ts';
import { CommandFailure, wrongUse } from '../terminal/command-failure.ts';
import type { Paint, Terminal } from '../terminal/terminal.ts';
import { asBytes, bytesOf, dataFrom, sendTo } from './api.ts';
import { ApiCommand, type CommandContext, noteMore } from './api-command.ts';
import { amount, count, moment, several, severalOf, take } from './flags.ts';
import { type AnswerOf, type Input, type Operation, type OperationId, operationOf } from './operations.ts';
import { gather, type Listed, type PageQuery, type ResultPage } from './pages.ts';

/** Values by the names that openapi.yaml has for them. */
export type Values = Readonly<Record<string, unknown>>;

/** What a command says of a value in another way than openapi.yaml. */
interface FlagChange {
  /** Its flags, such as `--by <dimension>`; without dashes, it is an argument. */
  readonly flags?: string;
  readonly meaning?: string;
  readonly read?: (text: string, before?: never) => unknown;
  /** What it is by default, as it is typed. */
  readonly usual?: string;
  /** Whether it can be left out, though the operation needs it. */
  readonly isOptional?: true;
}

export type FlagChanges = Readonly<Record<string, FlagChange>>;

/**
 * A command that is one operation of the API. Its flags, their values and what it needs are in openapi.yaml. The methods
 * name the values that they use.
 */
interface RowOf<Answer, Shown> {
  /** What it does, where the operation's summary is about more. */
  readonly does?: string;
  /** The same for the account that `--user` names. */
  readonly ofUser?: OperationId;
  /** @default one, with its arguments as openapi.yaml has examples of them */
  readonly examples?: readonly string[];
  /** Values that are given in another way, by their names, and values that the operation does not have. */
  readonly flags?: FlagChanges;
  /** Those that have flags, besides what is in the path. @default all */
  readonly only?: readonly string[];
  /** Values that are always the same: they have no flags. */
  readonly fixed?: Values;
  /** Whether a list is read to its end. */
  readonly isWhole?: true;
  /** Whether the resource's name alone is enough. */
  readonly isDefault?: true;
  /** Makes the request's values of those that were given. */
  prepare?(values: Values, context: CommandContext): Values | Promise<Values>;
  /** Does the same in the database, for `--database`: then no key is needed. */
  stored?(env: Terminal['env'], values: Values): Promise<Answer>;
  /** What of the answer is shown. @default all */
  picks?(answer: Answer, context: CommandContext): Shown | Promise<Shown>;
  lines?(body: Shown, paint: Paint, now: number, values: Values): readonly string[];
  /** What to do if the answer says that there is more. */
  readonly more?: string;
  /** Does it all, where more is done than to show the answer. */
  run?(context: CommandContext, values: Values, send: (more?: Values) => Promise<Answer>): Promise<void>;
}

export type Row = RowOf<never, never> & { readonly operation: OperationId };
export type Rows = Readonly<Record<string, Row>>;

/** A row, checked against what its operation answers. */
export function row<Id extends OperationId, Shown = AnswerOf<Id>>(
  operation: Id,
  rest: RowOf<AnswerOf<Id>, Shown>,
): Row {
  return { operation, ...rest } as unknown as Row;
}

const phrase = (text: string): string => `${text.charAt(0).toLowerCase()}${text.slice(1)}`.replaceAll('`', '');

/** The first sentence of a description, and how a time is written. */
function gist({ description, schema }: Input): string {
  const sentence = phrase(description).replace(/\.(\s.*)?$/s, '');
  return schema.format === 'date-time' ? `${sentence}: a span before now such as 2h, or a time` : sentence;
}

const placeholders: Readonly<Record<string, string>> = { 'date-time': 'when', date: 'day', binary: 'path' };

/** What it is called: of a list, one of what is in it. */
function wordOf({ name, schema }: Input): string {
  const word = name.replace(/_id$/, '').replaceAll('_', '-').toLowerCase();
  return schema.type === 'array' ? word.replace(/s$/, '') : word;
}

function placeholderOf(input: Input): string {
  const { name, description, schema } = input;
  if (name === 'user_id') return 'account';
  if (name === 'id') return /^The id of (?:the|an?) (\w+)/.exec(description)?.[1] ?? name;
  const ofKind = schema.type === 'integer' || schema.type === 'number' ? 'n' : wordOf(input).replace(/^.*-/, '');
  return placeholders[String(schema.format)] ?? ofKind;
}

/** What reads a value of this schema; the gateway says what else is wrong with it. */
function readerOf({ schema }: Input, now: () => number): (text: string, before?: never) => unknown {
  const { type, format, minimum, maximum, items } = schema;
  const { enum: names } = (items ?? {}) as { enum?: string[] };
  if (format === 'date-time') return moment(now);
  if (type === 'array') return names ? severalOf(names) : several;
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
const ofLists: FlagChanges = {
  limit: { meaning: 'how many at most', read: count, usual: '20' },
  after: { flags: '--after <id>', meaning: 'those that follow this one' },
};

function givenFor(input: Input, operation: Operation, change: FlagChange | undefined, terminal: Terminal): Given {
  const { name, schema } = input;
  const { flags, meaning, isOptional, usual, ...changed } = { ...ofLists[name], ...change };
  const placeholder = placeholderOf(input);
  const isPositional = flags === undefined ? isArgument(input, operation) : !flags.startsWith('-');
  const taken = new (isPositional ? Argument : Option)(
    flags ?? (isPositional ? `<${placeholder}>` : `--${wordOf(input)} <${placeholder}>`),
    meaning ?? gist(input),
  );
  const read = (changed.read ?? readerOf(input, terminal.now)) as (text: string, before?: unknown) => unknown;
  const isRequired = input.required && !isOptional;
  const byDefault = usual !== undefined ? read(usual) : isRequired ? undefined : schema.default;
  // the first that is given replaces the default
  if (taken instanceof Argument || taken.required)
    taken.argParser((text: string, before: unknown) => read(text, before === byDefault ? undefined : before));
  if (Array.isArray(schema.enum) && !changed.read) taken.choices(schema.enum);
  if (byDefault !== undefined) taken.default(byDefault, usual === '' ? `no ${name}` : usual);
  else if (taken instanceof Option) taken.makeOptionMandatory(isRequired);
  return { name, typed: taken instanceof Option ? (taken.long ?? '') : `<${taken.name()}>`, taken };
}

function everyGiven(row: Row, operation: Operation, terminal: Terminal): Given[] {
  const { only, fixed = {}, flags = {}, isWhole } = row;
  const { inputs } = operation;
  const shown = inputs.filter(({ name, in: place }) => {
    if (Object.hasOwn(fixed, name) || (isWhole && Object.hasOwn(ofLists, name))) return false;
    return place === 'path' || (only?.includes(name) ?? true);
  });
  const known = new Set(inputs.map(({ name }) => name));
  const ofCommand = Object.keys(flags).filter((name) => !known.has(name));
  const own = ofCommand.map((name): Input => ({ name, in: 'body', required: false, description: '', schema: {} }));
  return [...shown, ...own].map((input) => givenFor(input, operation, flags[input.name], terminal));
}

function exampleOf(words: string, { inputs }: Operation): string {
  const ofPath = inputs.filter((input) => input.in === 'path').map(({ example }) => String(example));
  return [words, ...ofPath].join(' ');
}

/** A key has these unless others are named. */
const usualScopes = ['models', 'webhooks', 'keys'];

/** A command of the table. @param words what is typed for it */
export function operationCommand(terminal: Terminal, words: string, row: Row): ApiCommand {
  const operation = operationOf(row.operation);
  const { scope = '', description, method, path } = operation;
  const given = everyGiven(row, operation, terminal);
  const orDatabase = row.stored ? ', or --database' : '';
  const needs = `needs a key with the scope ${scope}${orDatabase}`;
  const does = row.does ?? phrase(operation.summary);
  const text = description
    .trim()
    .replaceAll('**', '')
    .replaceAll(/(?<!\n)\n(?!\n)/g, ' ');
  const first = row.does === undefined ? [] : [`${does.charAt(0).toUpperCase()}${does.slice(1)}.`];
  const about = [...first, text, `It ${needs}, and calls ${method.toUpperCase()} ${path}.`].join('\n\n');
  const summary = usualScopes.includes(scope) ? does : `${does}; ${needs}`;
  const { examples = [exampleOf(words, operation)] } = row;
  const command = new ApiCommand(terminal, words.replace(/^.* /, ''), about).summary(summary).examples(...examples);
  for (const { taken } of given) {
    if (taken instanceof Option) command.addOption(taken);
    else command.addArgument(taken);
  }
  if (row.ofUser) command.option('--user <account>', `of this account; needs a key with the scope admin${orDatabase}`);
  if (row.stored) command.takesDatabase();
  return command.runs(async (context, ...typed: unknown[]) => {
    const options = typed.pop() as Values;
    const typedFor = (taken: Given['taken']) =>
      taken instanceof Option ? options[taken.attributeName()] : typed.shift();
    const values = { ...row.fixed, ...Object.fromEntries(given.map(({ name, taken }) => [name, typedFor(taken)])) };
    const isOfUser = row.ofUser && options.user !== undefined;
    try {
      const prepared = {
        ...((await row.prepare?.(values, context)) ?? values),
        ...(isOfUser && { user_id: options.user }),
      };
      if (options.database && row.stored) show(context, row, await row.stored(terminal.env, prepared), prepared);
      else await send(context, row, isOfUser ? operationOf(row.ofUser) : operation, prepared);
    } catch (error) {
      throw namingOption(error, given);
    }
  });
}

function show(context: CommandContext, row: Row, shown: unknown, values: Values): void {
  context.show(shown as never, (body, paint, now) => row.lines?.(body, paint, now, values) ?? []);
}

async function send(context: CommandContext, row: Row, operation: Operation, values: Values): Promise<void> {
  const ask = (more: Values = {}) => request(context, operation, { ...values, ...more });
  if (row.run) return row.run(context, values, ask as () => Promise<never>);
  const isList = row.isWhole || 'after' in values;
  const page = (query: PageQuery) => ask({ ...query }) as Promise<ResultPage<Listed>>;
  const limit = row.isWhole ? Number.POSITIVE_INFINITY : Number(values.limit);
  const answer = isList ? await gather(limit, page, values.after as string | undefined) : await ask();
  show(context, row, row.picks ? await row.picks(answer as never, context) : answer, values);
  if (isList) noteMore(answer as ResultPage<Listed>, context.terminal);
  else if (row.more && (answer as { has_more?: boolean }).has_more) context.terminal.printNote(row.more);
}

/** Sends one request with these values, each where openapi.yaml wants it. */
export async function request({ api }: CommandContext, operation: Operation, values: Values): Promise<unknown> {
  const { method, path, inputs, isForm, answersFile } = operation;
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
  const content = { ...(hasBody && { body }), ...(isForm && { bodySerializer: () => form }) };
  return dataFrom(sendTo(api)(method, path, { params, ...content, ...(answersFile && asBytes) }));
}

/** A file on the disk, which is read when it is sent. @throws CommandFailure where there is none */
async function fileAt(path: string): Promise<Blob> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) throw wrongUse(`There is no file ${path}.`);
  return openAsBlob(path);
}

/**
 * Writes what is answered to a file. Nothing is asked before the file is there, and it is removed where the answer is not whole.
 * @param ask answers with the stream of a body, if there is one
 * @throws Error if it is there already
 */
export async function saveTo(path: string, ask: () => Promise<unknown>, { print }: Terminal): Promise<void> {
  const file = await open(path, 'wx');
  try {
    const body = await ask();
    const written = file.createWriteStream();
    await pipeline(bytesOf(body), written);
    print(`${path}: ${written.bytesWritten.toLocaleString('en-US')} bytes`);
  } catch (error) {
    await file.close();
    await rm(path, { force: true });
    throw error;
  }
}

/** The same error with what was typed for the value that it is about. */
function namingOption(error: unknown, given: readonly Given[]): unknown {
  if (!(error instanceof CommandFailure) || error.param === undefined) return error;
  const [param] = error.param.split(/[.[]/);
  const typed = given.find(({ name }) => name === param)?.typed;
  if (typed !== undefined) error.message += `\nIt is given as ${typed}.`;
  return error;
}
