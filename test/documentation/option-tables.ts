import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { root } from '../package/tarball.ts';

/** What createModelGateway takes; a table of its own, and one for each interface that it extends. */
const main = 'ModelGatewayOptions';

/** The interfaces of options that are objects, and of hardenServer. */
const nested: readonly (readonly [heading: string, ...interfaces: string[]])[] = [
  ['`upstreams`, a list', 'UpstreamOptions'],
  ['`timeouts` of an upstream', 'UpstreamTimeouts'],
  ['`limits`', 'LimitOptions', 'RateLimits'],
  ['`quotas`', 'QuotaOptions', 'Quota'],
  ['`credits`', 'CreditOptions', 'ModelPrice', 'StoredPrice'],
  ['`dashboard`', 'DashboardOptions'],
  ['`eventTypes`, by name', 'EventTypeOptions'],
  ['`tracing`', 'TracingOptions'],
  ['`hardenServer`', 'HardenOptions'],
];

/** What an interface adds to the one of its table: where it is found in the options. */
const places: Readonly<Record<string, string>> = {
  RateLimits: '`limits.perKey`, `limits.perUser`: an object, or a function that gives one',
  Quota: '`quotas.perUser`: an object, or a function that gives one',
  ModelPrice: 'each of `credits.prices`',
  StoredPrice: 'each of `credits.storedPrices`',
};

/** The options of a gateway, and those of hardenServer. */
const sources = ['src/options', 'src/http/harden-server.ts'];

function readInterfaces(): Map<string, ts.InterfaceDeclaration> {
  const files = sources.flatMap((source) =>
    source.endsWith('.ts')
      ? [path.join(root, source)]
      : readdirSync(path.join(root, source), { recursive: true, encoding: 'utf8' })
          .filter((name) => name.endsWith('.ts'))
          .map((name) => path.join(root, source, name)),
  );
  const parsed = files.map((file) =>
    ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true),
  );
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

function toRow(member: ts.TypeElement): string {
  const [comment] = ts.getJSDocCommentsAndTags(member).filter(ts.isJSDoc);
  const tag = comment?.tags?.find(({ tagName }) => tagName.text === 'default');
  const unstated = member.questionToken ? 'none' : 'required';
  return `| \`${member.name?.getText()}\` | ${toCell(comment?.comment)} | ${toCell(tag?.comment) || unstated} |`;
}

/** The options as docs/options.md shows them: a Markdown table for each group, out of their doc comments. */
export function optionTables(): string {
  const interfaces = readInterfaces();
  const find = (name: string): ts.InterfaceDeclaration => {
    const declaration = interfaces.get(name);
    if (!declaration) throw new Error(`there is no interface ${name} in ${sources.join(' or ')}`);
    return declaration;
  };
  const toTable = (name: string): string => {
    const rows = ['| option | meaning | default |', '|---|---|---|', ...find(name).members.map(toRow)];
    return (places[name] ? [`${places[name]}:`, '', ...rows] : rows).join('\n');
  };
  const toHeading = (name: string): string => {
    const [comment] = ts.getJSDocCommentsAndTags(find(name)).filter(ts.isJSDoc);
    return toCell(comment?.comment).replace(/\..*/, '');
  };
  const extended = find(main).heritageClauses?.flatMap(({ types }) => types.map((type) => type.getText())) ?? [];
  const tables: typeof nested = [
    ['The gateway', main],
    ...extended.map((name) => [toHeading(name), name] as const),
    ...nested,
  ];
  return tables.map(([heading, ...names]) => [`## ${heading}`, ...names.map(toTable)].join('\n\n')).join('\n\n');
}
