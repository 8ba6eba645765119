import { expect } from 'chai';
import fc from 'fast-check';
import { bodyShape } from '../../../src/http/json/body-shape.ts';
import { outline, parseJson } from '../../../src/http/json/scan.ts';
import { JsonMembers, searchedKey, ValueReader } from '../../../src/http/json/search.ts';
import type { GatewayError } from '../../../src/index.ts';
import { type SpecSchema, spec } from '../../support/openapi.ts';

/** A failure says its own seed; this one makes every run the same. */
const seed = 20_261_125;
const nothing = bodyShape(spec, {});
const anyModel = bodyShape(spec, { type: 'object', properties: { usage: {}, id: {} } } as SpecSchema);

/** Texts with all that a reader of bytes can trip over; none has both a quotation mark and the end of a searched key. */
const text = fc.oneof(
  fc.string({ unit: 'binary' }).map((any) => any.replaceAll('"', "'")),
  fc.constantFrom(
    'usage',
    'id',
    'output',
    '\\',
    '\\\\"',
    '{"usage":{',
    '"id":"x",',
    '}]',
    'é😀\ud800',
    '\u0000\n',
    'x'.repeat(300),
  ),
);
const key = fc.oneof(
  fc.constantFrom('usage', 'id', 'output', 'a'),
  fc.string({ maxLength: 4 }).map((any) => any.replaceAll('"', '')),
);
const { value: json } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.oneof(text, fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 5, noNullPrototype: true }),
  ),
}));
const indent = fc.constantFrom(undefined, 1, '\r\n\t');

/** A place in any number of bytes. */
const place = fc.nat(0x7fff_ffff);
/** Where chunks end: a few places, or every byte. */
const cuts = fc.oneof(fc.array(place, { maxLength: 12 }), fc.constant('every byte' as const));
function* chunksOf(bytes: Buffer, given: readonly number[] | 'every byte'): Generator<Buffer> {
  const ends =
    given === 'every byte' ? bytes.keys() : given.map((at) => at % (bytes.length + 1)).toSorted((a, b) => a - b);
  let start = 0;
  for (const end of [...ends, bytes.length]) {
    yield bytes.subarray(start, end);
    start = end;
  }
}

function parsed(bytes: Buffer): { readonly value: unknown } | undefined {
  try {
    // bytes that are no UTF-8 are no JSON, which Buffer's own decoder does not say
    return { value: JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)) };
  } catch {
    return undefined;
  }
}

/** What is JSON, and refused all the same. */
const refusals = ['duplicate_parameter', 'number_not_exact', 'request_too_large'];

const stray = fc.oneof(
  fc.uint8Array({ maxLength: 3 }),
  fc
    .constantFrom('"', '\\', '\\u12', '\\x', '\n', '{', '}', '[', ']', ',', ':', '-', '.', 'e', '0', 't', ' ')
    .map((mark) => Buffer.from(mark)),
);

/** A text of JSON with some of its bytes taken out, put in or changed. */
const broken = fc
  .tuple(json, indent, fc.array(fc.tuple(place, fc.nat(3), stray), { maxLength: 3 }))
  .map(([value, space, edits]) =>
    edits.reduce<Buffer>(
      (bytes, [where, over, put]) => {
        const at = where % (bytes.length + 1);
        return Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + over)]);
      },
      Buffer.from(JSON.stringify(value, null, space)),
    ),
  );

/** The values of a key that are objects or texts, in the order in which they stand; what is in one of them is part of it. */
function valuesOf(name: string, value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item) => valuesOf(name, item));
  return Object.entries(value).flatMap(([given, child]) => {
    const isFound =
      given === name &&
      (typeof child === 'string' || (typeof child === 'object' && child !== null && !Array.isArray(child)));
    return isFound ? [child] : valuesOf(name, child);
  });
}

/** The same, as it comes out of JSON. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('the tokenizer of JSON, with random texts', () => {
  it('checks a body as JSON.parse does, or refuses it for a reason of its own', async () => {
    await fc.assert(
      fc.asyncProperty(broken, async (bytes) => {
        const expected = parsed(bytes);
        let read: { readonly value: unknown } | undefined;
        try {
          read = { value: parseJson(bytes) };
        } catch (error) {
          const { code } = error as GatewayError;
          if (refusals.includes(code)) expect(expected, `${code}: ${bytes}`).not.to.equal(undefined);
          else
            expect([expected, ['invalid_json', 'invalid_encoding'].includes(code)], `${bytes}`).to.deep.equal([
              undefined,
              true,
            ]);
          return;
        }
        expect(read, `${bytes}`).to.deep.equal(expected);
        await outline(bytes, nothing);
      }),
      { seed, numRuns: 3_000 },
    );
  });

  it('says of a relayed body what JSON.parse says of it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.dictionary(key, json, { maxKeys: 5, noNullPrototype: true }),
        indent,
        async (value, space) => {
          const bytes = Buffer.from(JSON.stringify(value, null, space));
          let fields: Awaited<ReturnType<typeof outline>>['fields'];
          try {
            ({ fields } = await outline(bytes, anyModel));
          } catch (error) {
            // a key such as ID, which another reader takes for id
            expect((error as GatewayError).code).to.equal('unknown_parameter');
            return;
          }
          for (const name of ['usage', 'id']) {
            const field = fields.get(name);
            expect(field !== undefined).to.equal(Object.hasOwn(value, name));
            if (field)
              expect(JSON.parse(`${bytes.subarray(field.start, field.end)}`)).to.deep.equal(plain(value[name]));
          }
        },
      ),
      { seed, numRuns: 1_000 },
    );
  });

  it('finds the members of an object as JSON.parse does, however its bytes come', () => {
    fc.assert(
      fc.property(
        fc.dictionary(key, json, { maxKeys: 6, noNullPrototype: true }),
        indent,
        cuts,
        (value, space, places) => {
          const found: Record<string, unknown> = {};
          const members = new JsonMembers({
            names: ['usage', 'id'],
            keepLimit: 1_000_000,
            onMember: (name, member) => {
              found[name] = member;
            },
          });
          for (const chunk of chunksOf(Buffer.from(JSON.stringify(value, null, space)), places)) members.read(chunk);
          const { usage, id } = value;
          expect(members.isWhole).to.equal(true);
          expect(found).to.deep.equal(plain({ usage, id }));
        },
      ),
      { seed, numRuns: 2_000 },
    );
  });

  it('finds the members of the objects of a list as JSON.parse does, however its bytes come', () => {
    const answer = fc.record(
      { a: json, output: fc.oneof(fc.array(json), json), id: json, usage: json },
      { noNullPrototype: true },
    );
    fc.assert(
      fc.property(answer, indent, cuts, (value, space, places) => {
        const found: unknown[] = [];
        let ends = 0;
        const members = new JsonMembers({
          list: 'output',
          names: ['id'],
          keepLimit: 1_000_000,
          onMember: (_, id) => found.push(id),
          onListEnd: () => {
            ends += 1;
          },
        });
        for (const chunk of chunksOf(Buffer.from(JSON.stringify(value, null, space)), places)) members.read(chunk);
        const { output } = plain(value) as { output: unknown };
        const items = Array.isArray(output) ? output : [];
        const ids = items.filter(
          (item) => typeof item === 'object' && item !== null && !Array.isArray(item) && Object.hasOwn(item, 'id'),
        );
        expect(found).to.deep.equal(ids.map(({ id }) => id));
        expect(ends).to.equal(Array.isArray(output) ? 1 : 0);
      }),
      { seed, numRuns: 2_000 },
    );
  });

  it('finds the values of a key as JSON.parse does, however the bytes come', () => {
    fc.assert(
      fc.property(json, indent, cuts, (value, space, places) => {
        const found: unknown[] = [];
        const reader = new ValueReader(searchedKey('usage', '{"'), 1_000_000, (each) => found.push(each));
        for (const chunk of chunksOf(Buffer.from(JSON.stringify(value, null, space)), places)) reader.read(chunk);
        expect(found).to.deep.equal(plain(valuesOf('usage', value)));
      }),
      { seed, numRuns: 2_000 },
    );
  });

  it('goes through bytes that are no JSON without a failure, and holds no more of them than it may', () => {
    fc.assert(
      fc.property(broken, cuts, (bytes, places) => {
        const lengths: number[] = [];
        const members = new JsonMembers({
          list: 'output',
          names: ['id'],
          keepLimit: 8,
          onMember: (_, value, length) => {
            if (length > 8) expect(value).to.equal(undefined);
            lengths.push(length);
          },
        });
        const reader = new ValueReader(searchedKey('usage', '{"['), 8, () => {});
        for (const chunk of chunksOf(bytes, places)) {
          members.read(chunk);
          reader.read(chunk);
        }
        expect(Math.max(0, ...lengths)).to.be.at.most(bytes.length);
      }),
      { seed, numRuns: 2_000 },
    );
  });
});
