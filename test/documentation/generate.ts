/** Writes the generated parts of the documents: `npm run docs:generate`. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../package/tarball.ts';
import { documentText } from './documents.ts';
import { generatedParts, withGeneratedParts } from './generated.ts';

for (const document of Object.keys(generatedParts)) {
  writeFileSync(path.join(root, document), withGeneratedParts(document, documentText(document)));
}
