import { styleText } from 'node:util';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Gives text a style, or leaves it as it is where there are no colours. */
export type Paint = (style: Style, text: string) => string;

export const plain: Paint = (_style, text) => text;

// whether there are colours has been decided for the whole terminal
export const coloured: Paint = (style, text) => styleText(style, text, { validateStream: false });
