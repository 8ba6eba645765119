/** Writes the tables of options and of environment variables into docs/configuration.md, and those of docs/scale.md: `npm run docs:generate`. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { variablesAsMarkdown } from '../../src/cli/config/environment.ts';
import { root } from '../package/tarball.ts';
import { withGeneratedParts } from '../scale/scale-document.ts';
import { documentText } from './documents.ts';
import { closing, opening, optionTables } from './option-tables.ts';

const document = 'docs/configuration.md';
const text = documentText(document);
const [before, behind] = [text.indexOf(opening), text.indexOf(closing)];
if (before < 0 || behind < before) throw new Error(`${document} has no ${opening} … ${closing}`);
const withOptions = `${text.slice(0, before)}${opening}\n\n${optionTables()}\n\n${text.slice(behind)}`;
/** The header of the table, and every row of it. */
const variablesTable = /^\| variable \|.*(?:\n\|.*)*/m;
if (!variablesTable.test(withOptions)) throw new Error(`${document} has no table of variables`);
writeFileSync(path.join(root, document), withOptions.replace(variablesTable, variablesAsMarkdown));

const scale = 'docs/scale.md';
writeFileSync(path.join(root, scale), withGeneratedParts(documentText(scale)));
