/** Writes the tables of options into docs/configuration.md: `npm run docs:generate`. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../package/tarball.ts';
import { documentText } from './documents.ts';
import { closing, opening, optionTables } from './option-tables.ts';

const document = 'docs/configuration.md';
const text = documentText(document);
const [before, behind] = [text.indexOf(opening), text.indexOf(closing)];
if (before < 0 || behind < before) throw new Error(`${document} has no ${opening} … ${closing}`);
writeFileSync(
  path.join(root, document),
  `${text.slice(0, before)}${opening}\n\n${optionTables()}\n\n${text.slice(behind)}`,
);
