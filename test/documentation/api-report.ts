import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';
import { root } from '../package/tarball.ts';

/** What openapi.yaml says, and not this report. */
const fromOpenapi: ReadonlySet<string> = new Set(['components', 'operations', 'paths', 'webhooks']);

interface Declaration {
  readonly text: string;
  readonly isExported: boolean;
}

/** What is declared, by name. Of what is not exported, what it takes is left out: nobody outside calls it. */
function declarationsOf(report: string): ReadonlyMap<string, Declaration> {
  const declarations = new Map<string, Declaration>();
  for (const text of report.replace(/^ *\/\/ \(undocumented\)\n/gm, '').split(/\n\n(?=\/\/ )/)) {
    const found = /^(export )?(?:interface|class|type|function|const) (\w+)/m.exec(text);
    const [, exported, name = ''] = found ?? [];
    if (!found || fromOpenapi.has(name)) continue;
    const inner = () =>
      text.replace(/^function (\w+).*\): /m, 'function $1(…): ').replace(/^ +constructor\(.*\);\n/m, '');
    declarations.set(name, { text: (exported ? text : inner()).trim(), isExported: exported !== undefined });
  }
  return declarations;
}

/** What is exported, and the types that it names, and those that these name. */
function publicTypes(report: string): string {
  const declarations = declarationsOf(report);
  const reached = new Set([...declarations].filter(([, { isExported }]) => isExported).map(([name]) => name));
  for (const name of reached) {
    const code = declarations.get(name)?.text.replace(/\/\/.*$|'[^']*'|"[^"]*"/gm, '') ?? '';
    // no member, no name of a field or parameter
    for (const [word] of code.matchAll(/(?<![.\w])\w+\b(?!\??:)/g)) if (declarations.has(word)) reached.add(word);
  }
  return [...declarations].flatMap(([name, { text }]) => (reached.has(name) ? [text] : [])).join('\n\n');
}

/** The types of what an entry of the package exports, as `npm run build` has written them. @param entry a path below dist */
export function apiReport(entry: string): string {
  const file = path.join(root, 'dist', entry);
  if (!existsSync(file)) throw new Error(`there is no ${file}: run npm run build first`);
  const folder = mkdtempSync(path.join(tmpdir(), 'api-report-'));
  try {
    const config = ExtractorConfig.prepare({
      configObject: {
        projectFolder: root,
        mainEntryPointFilePath: file,
        compiler: {
          overrideTsconfig: {
            compilerOptions: { module: 'nodenext', target: 'es2022', types: ['node'], skipLibCheck: true },
            files: [file],
          },
        },
        apiReport: {
          enabled: true,
          reportFolder: folder,
          reportTempFolder: folder,
          reportFileName: 'report',
          includeForgottenExports: true,
        },
        docModel: { enabled: false },
        dtsRollup: { enabled: false },
        tsdocMetadata: { enabled: false },
        newlineKind: 'lf',
      },
      packageJsonFullPath: path.join(root, 'package.json'),
      configObjectFullPath: undefined,
    });
    const messageCallback = (message: { handled: boolean }) => {
      message.handled = true;
    };
    Extractor.invoke(config, { localBuild: true, messageCallback });
    const [, types = ''] = readFileSync(path.join(folder, 'report.api.md'), 'utf8').split('```');
    return `\`\`\`text\n${publicTypes(types)}\n\`\`\``;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
