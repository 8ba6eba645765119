interface Container {
  /** The keys of an object so far; undefined for an array. */
  readonly keys: Set<string> | undefined;
  /** Where in its parent this container stands, as a path: `data.items[0]`. */
  readonly path: string;
  /** The key or index that is being read. */
  at: string | number;
  expectsKey: boolean;
}

function pathTo({ path, at }: Container): string {
  if (typeof at === 'number') return `${path}[${at}]`;
  return path === '' ? at : `${path}.${at}`;
}

/** The index of the quote that ends the string which starts at `start`. */
function endOfString(text: string, start: number): number {
  let i = start + 1;
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1;
  return i;
}

/**
 * The path of the first key that one object of a JSON text has twice, however it is escaped.
 * `JSON.parse` keeps the last of two and says nothing; another reader may keep the first.
 * @param text valid JSON
 */
export function findDuplicateKey(text: string): string | undefined {
  const open: Container[] = [];
  for (let i = 0; i < text.length; i += 1) {
    const inside = open.at(-1);
    const char = text[i];
    if (char === '{' || char === '[') {
      const path = inside ? pathTo(inside) : '';
      const isObject = char === '{';
      open.push({ keys: isObject ? new Set() : undefined, path, at: isObject ? '' : 0, expectsKey: isObject });
    } else if (char === '}' || char === ']') {
      open.pop();
    } else if (char === ',' && inside) {
      if (typeof inside.at === 'number') inside.at += 1;
      else inside.expectsKey = true;
    } else if (char === '"') {
      const end = endOfString(text, i);
      if (inside?.keys && inside.expectsKey) {
        inside.at = JSON.parse(text.slice(i, end + 1)) as string;
        inside.expectsKey = false;
        if (inside.keys.has(inside.at)) return pathTo(inside);
        inside.keys.add(inside.at);
      }
      i = end;
    }
  }
  return undefined;
}
