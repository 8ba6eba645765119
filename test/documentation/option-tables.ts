import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { constants, moved, replaced } from '../../src/options/renamed.ts';
import { root } from '../package/tarball.ts';

/** What createModelGateway takes; a table of its own, and one for each interface that it extends. */
const main = 'ModelGatewayOptions';

/** The interfaces of options that are objects. */
const nested: readonly (readonly [heading: string, ...interfaces: string[]])[] = [
  ['`upstreams`, a list', 'UpstreamOptions'],
  ['`timeouts` of an upstream', 'UpstreamTimeouts'],
  ['`endpoints`, a list', 'EndpointOptions'],
  ['`modelCalls`', 'ModelCallOptions'],
  ['`background`', 'BackgroundOptions'],
  ['`sockets`', 'SocketOptions'],
  ['`deliveries`', 'DeliveryOptions'],
  ['`limits`', 'LimitOptions', 'RateLimits'],
  ['`quotas`', 'QuotaOptions', 'Quota'],
  ['`credits`', 'CreditOptions', 'ModelPrice', 'StoredPrice'],
  ['`dashboard`', 'DashboardOptions'],
  ['`eventTypes`, by name', 'EventTypeOptions'],
  ['`tracing`', 'TracingOptions'],
];

/** What an interface adds to the one of its table: where it is found in the options. */
const places: Readonly<Record<string, string>> = {
  RateLimits: '`limits.perKey`, `limits.perUser`: an object, or a function of the principal that gives one',
  Quota: '`quotas.perUser`: an object, or a function of the user id that gives one',
  ModelPrice: 'each of `credits.prices`',
  StoredPrice: 'each of `credits.storedPrices`',
};

/** Interfaces whose fields are data, and no settings. */
const prices = ['ModelPrice', 'StoredPrice'];

const folder = 'src/options';

function readInterfaces(): Map<string, ts.InterfaceDeclaration> {
  const parsed = readdirSync(path.join(root, folder)).map((name) => {
    const file = path.join(root, folder, name);
    return ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  });
  const declared = parsed.flatMap((source) => source.statements.filter(ts.isInterfaceDeclaration));
  return new Map(declared.map((declaration) => [declaration.name.text, declaration]));
}

/** A comment on one line of a table. */
function toCell(comment: string | ts.NodeArray<ts.JSDocComment> | undefined): string {
  return (ts.getTextOfJSDocComment(comment) ?? '')
    .replace(/\{@link (\w+)\}/g, '`$1`')
    .replace(/\s+/g, ' ')
    .replaceAll('|', '\\|')
    .trim();
}

function describe(member: ts.TypeElement) {
  const [comment] = ts.getJSDocCommentsAndTags(member).filter(ts.isJSDoc);
  const tagged = (name: string) => toCell(comment?.tags?.find(({ tagName }) => tagName.text === name)?.comment);
  return {
    name: member.name?.getText() ?? '',
    meaning: toCell(comment?.comment),
    default: tagged('default') || (member.questionToken ? 'none' : 'required'),
    when: tagged('when'),
    /** Whether its own options have a table. */
    isGroup: tables.some(([, ...names]) => names.some((name) => member.getText().includes(name))),
  };
}

const extended = 'ModelHooks';
const tables: typeof nested = [['The gateway', main], ['Hooks', extended], ...nested];

function readOptions() {
  const interfaces = readInterfaces();
  return (name: string) => {
    const declaration = interfaces.get(name);
    if (!declaration) throw new Error(`there is no interface ${name} in ${folder}`);
    return declaration.members.map(describe);
  };
}

/** The options as docs/options.md shows them: a Markdown table for each group, out of their doc comments. */
export function optionTables(): string {
  const optionsOf = readOptions();
  const toTable = (name: string): string => {
    const isData = prices.includes(name);
    const head = isData ? ['option', 'meaning', 'default'] : ['option', 'meaning', 'default', 'set it when'];
    const rows = optionsOf(name).map((option) => [
      ...[`\`${option.name}\``, option.meaning, option.default],
      ...(isData ? [] : [option.when]),
    ]);
    const [top, ...lines] = [head, ...rows].map((cells) => `| ${cells.join(' | ')} |`.replace(/ {2,}/g, ' '));
    const table = [top, `|${head.map(() => '---|').join('')}`, ...lines];
    return (places[name] ? [`${places[name]}:`, '', ...table] : table).join('\n');
  };
  return tables.map(([heading, ...names]) => [`## ${heading}`, ...names.map(toTable)].join('\n\n')).join('\n\n');
}

/** How many options there are, prices aside, and which do not say when to set them. */
export function countOptions() {
  const optionsOf = readOptions();
  const names = tables.flatMap(([, ...interfaces]) => interfaces).filter((name) => !prices.includes(name));
  const single = names.flatMap((name) => optionsOf(name).filter(({ isGroup }) => !isGroup));
  return {
    topLevel: optionsOf(main).length + optionsOf(extended).length,
    single: single.length,
    unexplained: single.filter(({ when }) => when === '').map(({ name }) => name),
  };
}

/** Options that there once were, and what takes their place: a Markdown table. */
export function formerOptionTable(): string {
  const rows = [
    ...Object.entries(moved).map(([before, now]) => `| \`${before}\` | \`${now}\` |`),
    ...Object.entries(replaced).map(([before, instead]) => `| \`${before}\` | ${instead} |`),
    ...Object.entries(constants).map(([before, value]) => `| \`${before}\` | fixed at ${value} |`),
    '| those of `hardenServer` | set [properties of the server](mounting.md#slow-clients) after the call |',
  ];
  return ['| before | now |', '|---|---|', ...rows].join('\n');
}
