import { inspect } from 'node:util';

function asJson(value: unknown): string {
  const seen = new Set<unknown>();
  try {
    return (
      JSON.stringify(value, (_key, item: unknown) => {
        if (typeof item !== 'object' || item === null) return item;
        if (seen.has(item)) return '[seen]';
        seen.add(item);
        return item;
      }) ?? ''
    );
  } catch {
    return '';
  }
}

/** Everything that a value would give away however it is printed. */
function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value instanceof Uint8Array) return [Buffer.from(value).toString('latin1')];
  const printed = inspect(value, { depth: 6, maxStringLength: null, maxArrayLength: 1_000 });
  const parts = value instanceof Error ? [value.message, value.stack ?? '', ...textsOf(value.cause ?? '')] : [];
  return [printed, asJson(value), String(value), ...parts];
}

/** A value as it stands, and in the encodings that only look like secrecy. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  const decoded = value.startsWith('whsec_') ? [Buffer.from(value.slice(6), 'base64').toString('latin1')] : [];
  const base64 = [0, 1, 2].map((shift) => {
    // inside a longer text the same bytes give one of three texts, whose ends depend on what is around them
    const text = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64');
    return text.slice(shift === 0 ? 0 : 4, -4);
  });
  const base64url = base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'));
  return [value, encodeURIComponent(value), bytes.toString('hex'), ...base64, ...base64url, ...decoded];
}

/** Keeps all that was written anywhere, and says where a canary is in it. */
export function createLeakScanner() {
  const records: { where: string; text: string }[] = [];
  return {
    records,
    saw(where: string, value: unknown): void {
      for (const text of textsOf(value)) records.push({ where, text });
    },
    /** Where a value was written, as it stands or in another encoding. */
    places(value: string): string[] {
      const forms = formsOf(value);
      const found = records.filter(({ text }) => forms.some((form) => text.includes(form)));
      return [...new Set(found.map(({ where }) => where))];
    },
  };
}

export type LeakScanner = ReturnType<typeof createLeakScanner>;

/** Shows the scanner the console and what the process writes itself, until the returned function is called. */
export function scanOutput(scanner: LeakScanner): () => void {
  const undo = (['stdout', 'stderr'] as const).map((name) => {
    const stream = process[name];
    const write = stream.write;
    stream.write = ((chunk: string | Uint8Array, ...rest: never[]) => {
      scanner.saw(name, chunk);
      return write.call(stream, chunk, ...rest);
    }) as typeof write;
    return () => {
      stream.write = write;
    };
  });
  return () => {
    for (const restore of undo) restore();
  };
}
