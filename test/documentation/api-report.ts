import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor';
import { root } from '../package/tarball.ts';

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
        apiReport: { enabled: true, reportFolder: folder, reportTempFolder: folder, reportFileName: 'report' },
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
    const lines = types.replace(/^ts\n+/, '').replace(/^\/\/ \(No @packageDocumentation.*\n/m, '');
    return `\`\`\`text\n${lines.replace(/^ *\/\/ \(undocumented\)\n/gm, '').trim()}\n\`\`\``;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
