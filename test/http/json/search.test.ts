import { expect } from 'chai';
import fc from 'fast-check';
import {
  JsonMembers,
  mayName,
  namedTexts,
  pointerReader,
  searchedKey,
  ValueReader,
} from '../../../src/http/json/search.ts';

const names = ['status', 'usage', 'output'];
const kept = 64;

function membersOf(text: string, step: number) {
  const bytes = Buffer.from(text);
  const values: Record<string, unknown> = {};
  const lengths: Record<string, number> = {};
  const members = new JsonMembers({
    names,
    keepLimit: kept,
    onMember(name, value, length) {
      if (length > kept) lengths[name] = length;
      else values[name] = value;
    },
  });
  for (let at = 0; at < bytes.length; at += step) members.read(bytes.subarray(at, at + step));
  return { values, lengths, isWhole: members.isWhole };
}

const long = `["${'x'.repeat(kept)}"]`;
const table: [name: string, text: string, expected: Partial<ReturnType<typeof membersOf>>][] = [
  [
    'any values',
    '{"status":"a","usage":{"b":[1,{"c":2}]},"output":null}',
    { values: { status: 'a', usage: { b: [1, { c: 2 }] }, output: null } },
  ],
  ['white space', ' {\r\n "status" :\t"a" , "x" : 1 }\n', { values: { status: 'a' } }],
  ['an escaped key', '{"st\\u0061tus":"a"}', { values: { status: 'a' } }],
  ['a key that is there twice', '{"status":"a","status":"b"}', { values: { status: 'b' } }],
  [
    'keys of objects inside',
    '{"tools":[{"status":"x","usage":{}}],"metadata":{"usage":"1"},"status":"a"}',
    { values: { status: 'a' } },
  ],
  [
    'texts that look like keys',
    '{"a":"\\",\\"status\\":\\"x\\"","b":"{\\\\","status":"a","c":"}"}',
    { values: { status: 'a' } },
  ],
  ['characters of several bytes', '{"é😀":"é","status":"é😀"}', { values: { status: 'é😀' } }],
  [
    'a value too large to be held',
    `{"output":${long},"status":"a"}`,
    { values: { status: 'a' }, lengths: { output: long.length } },
  ],
  ['a key too large to be held', `{"${'k'.repeat(100)}":"x","status":"a"}`, { values: { status: 'a' } }],
  ['an empty object', '{}', { values: {} }],
  ['an object that breaks off', '{"status":"a","output":[', { values: { status: 'a' }, isWhole: false }],
  ['a list', '["status","a"]', { values: {} }],
  ['more text after the object', '{"status":"a"} {"status":"b"}', { values: { status: 'a' } }],
];

describe('the value that a JSON pointer leads to', () => {
  const cases: [text: string, names: string[], value: unknown][] = [
    ['{"a":{"b":[{},[1],{"c":7}]}}', ['a', 'b', '2', 'c'], 7],
    ['{"x":{"a":{"b":1}},"a":{"y":{"b":2},"b":7,"z":{"b":3}},"b":4}', ['a', 'b'], 7],
    [` {"t":"${'}],:\\"{'.repeat(300)}", "a" : { "b" : 7 } } `, ['a', 'b'], 7],
    [`{"a":{"${'k'.repeat(2_000)}":1,"b":"7.5"}}`, ['a', 'b'], '7.5'],
    ['[[0],[1,7],[2]]', ['1', '1'], 7],
    ['[{},[]]', ['1', '0'], undefined],
    ['{"a":{"0":7}}', ['a', '0'], 7],
    ['{"a":[7]}', ['a', '00'], undefined],
    ['{"a":[1,2]}', ['a', 'length'], undefined],
    ['{"a":{"b":{"b":1}}}', ['a', 'b'], { b: 1 }],
    ['{"a":[{"b":1}]}', ['a', 'b'], undefined],
    [`{"a":"${'x'.repeat(2_000)}"}`, ['a'], undefined],
    ['{"größe":{"\\u0062":7}}', ['größe', 'b'], 7],
  ];
  for (const [text, names, value] of cases) {
    it(`is found however the text is split: /${names.join('/')} of ${text.slice(0, 40)}`, () => {
      const bytes = Buffer.from(text);
      for (const step of [1, 2, 7, bytes.length]) {
        let found: unknown;
        const reader = pointerReader(names, (each) => {
          found = each;
        });
        for (let at = 0; at < bytes.length; at += step) reader.read(bytes.subarray(at, at + step));
        expect(found, `in pieces of ${step}`).to.deep.equal(value);
      }
    });
  }
});

describe('members of an object', () => {
  for (const [name, text, expected] of table) {
    it(`are membersOf with ${name}, however the bytes are split`, () => {
      for (const step of [1, 2, 3, 7, text.length * 4]) {
        expect(membersOf(text, step), `by ${step}`).to.deep.equal({
          values: {},
          lengths: {},
          isWhole: true,
          ...expected,
        });
      }
    });
  }
});

const keys = ['file_id', 'file_ids', 'vector_store_ids'];
const unread = ['metadata', 'attributes', 'parameters', 'schema', 'annotations', 'results'];

const text = fc.oneof(fc.string(), fc.constantFrom('file_id', '"', '\\\\', '{"file_id":"x"}', 'é\u2028', ',:[]{}'));
const key = fc.oneof(fc.constantFrom(...keys, ...unread), fc.string({ maxLength: 3 }));
const { value: json } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5 },
    fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 5, noNullPrototype: true }),
  ),
}));

async function found(text: string) {
  const bytes = Buffer.from(text);
  const names = (await mayName(bytes)) ? await namedTexts(bytes, { keys, longest: 256, most: 1_000 }) : [];
  return names.map(({ path, text: value }) => [path, value]);
}

describe('texts under given keys of a JSON body', () => {
  for (const [what, json, expected] of [
    ['at the top', '{"file_id":"a"}', [['file_id', 'a']]],
    [
      'in a list',
      '{"file_ids":["a","b"],"x":["c"]}',
      [
        ['file_ids[0]', 'a'],
        ['file_ids[1]', 'b'],
      ],
    ],
    ['deep inside', '{"input":[1,{"content":[{"file_id" : "a"}]}]}', [['input[1].content[0].file_id', 'a']]],
    [
      'twice in one object',
      '{"file_id":"a","file_id":"b"}',
      [
        ['file_id', 'a'],
        ['file_id', 'b'],
      ],
    ],
    ['with a key in escapes', '{"\\u0066ile_id":"a"}', [['file_id', 'a']]],
    ['with an underscore as an escape', '{"file\\u005Fid":"a"}', [['file_id', 'a']]],
    [
      'with a key in other case',
      '{"File_ID":"a","FILE_IDS":["b"]}',
      [
        ['File_ID', 'a'],
        ['FILE_IDS[0]', 'b'],
      ],
    ],
    [
      'in a variable that is called metadata',
      '{"prompt":{"variables":{"metadata":{"file_id":"a"}}}}',
      [['prompt.variables.metadata.file_id', 'a']],
    ],
    ['with a value in escapes', '{"file_id":"\\u0061"}', [['file_id', 'a']]],
    ['that are too long', `{"file_id":"${'a'.repeat(2_000)}"}`, [['file_id', '…']]],
    ['that are empty', '{"file_id":""}', [['file_id', '']]],
    [
      'in a variable that is called variables',
      '{"prompt":{"variables":{"variables":{"file_id":"a"}}}}',
      [['prompt.variables.variables.file_id', 'a']],
    ],
    ['below a key that looks like a path', '{"input[0]":{"file_id":"a"}}', [['["input[0]"].file_id', 'a']]],
    ['once each', '{"a":{"file_id":"x"},"b":[{"file_id":"x"}]}', [['a.file_id', 'x']]],
    ['in a list of lists', '{"file_ids":[["a"]]}', [['file_ids[0][0]', 'a']]],
  ] as const) {
    it(`are found ${what}`, async () => {
      expect(await found(json)).to.deep.equal(expected);
    });
  }

  for (const [what, json] of [
    ['a text that quotes them', '{"content":"{\\"file_id\\":\\"a\\"}","id":"\\"file_id\\":"}'],
    ['metadata', '{"metadata":{"file_id":"a","deep":{"file_ids":["b"]}}}'],
    ['the parameters of a tool', '{"tools":[{"parameters":{"properties":{"file_id":{"default":"a","file_id":"b"}}}}]}'],
    ['what an answer has cited', '{"input":[{"content":[{"annotations":[{"file_id":"cfile_1"}]}]}]}'],
    ['what a search has found', '{"input":[{"type":"file_search_call","results":[{"file_id":"file-1"}]}]}'],
    ['values of other types', '{"file_id":null,"file_ids":[1,{"id":"a"}],"vector_store_ids":{"a":"b"}}'],
    ['a value that is called so', '{"type":"file_id","list":["file_ids"]}'],
    [
      'the schema of a tool that is sent back',
      '{"input":[{"tools":[{"input_schema":{"examples":[{"file_id":"a"}]}}]}]}',
    ],
    ['texts of variables, which may have any name', '{"prompt":{"variables":{"file_id":"a","file_ids":["b"]}}}'],
    ['longer keys', '{"my_file_id":"a","file_id_2":"b","tool_call_id":"c"}'],
  ] as const) {
    it(`are not found in ${what}`, async () => {
      expect(await found(json)).to.deep.equal([]);
    });
  }

  it('are no more than are wanted, in little memory, however deep and many', async () => {
    const nested = Array.from({ length: 96 }, () => `{"${'k'.repeat(250)}":`).join('');
    const ids = Array.from({ length: 400_000 }, (_, i) => `"${i}"`).join();
    const body = Buffer.from(`${nested}{"file_ids":[${ids}]}${'}'.repeat(96)}`);
    const before = process.memoryUsage().heapUsed;
    const names = await namedTexts(body, { keys, longest: 256, most: 1_000 });
    expect(names).to.have.length(1_001);
    expect(names[0]?.path).to.have.length(256);
    expect(process.memoryUsage().heapUsed - before).to.be.below(50_000_000);
  });

  it('are found in a body of many slices, across the ends of them', async () => {
    for (let i = 0; i < 24; i += 1) {
      const filler = 'x'.repeat(256 * 1024 - i);
      const names = await namedTexts(Buffer.from(`{"a":"${filler}","b":{"file_id":"y"},"c":"${filler}"}`), {
        keys,
        longest: 256,
        most: 10,
      });
      expect(names, `${i}`).to.deep.equal([{ key: 'file_id', text: 'y', path: 'b.file_id' }]);
    }
  });

  it('are those that JSON.parse shows, in any body', async () => {
    const property = fc.asyncProperty(json, fc.constantFrom(undefined, 1), async (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      const expected: [name: string, path: string, value: string][] = [];
      collect(JSON.parse(text), '', '', expected);
      const once = expected.filter(([name], i) => expected.findIndex(([other]) => other === name) === i);
      expect(await found(text)).to.deep.equal(once.map(([, path, value]) => [path, value]));
    });
    await fc.assert(property, { seed: 20_261_127, numRuns: 2_000 });
  });
});

function collect(value: unknown, key: string, path: string, into: [string, string, string][]): void {
  if (typeof value === 'string' && keys.includes(key)) into.push([`${key} ${value}`, path.replace(/^\./, ''), value]);
  if (Array.isArray(value)) for (const [i, item] of value.entries()) collect(item, key, `${path}[${i}]`, into);
  else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (!unread.includes(name) || typeof member !== 'object')
        collect(member, name, `${path}${/^[\w-]+$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`}`, into);
    }
  }
}

const keepLimit = 64 * 1024;
const content = searchedKey('content', '{"');

/** The values under `content`, valuesOf from pieces of the text that end where `cuts` says. */
function valuesOf(text: string | Buffer, cuts: readonly number[] = []): unknown[] {
  const bytes = Buffer.from(text);
  const values: unknown[] = [];
  const reader = new ValueReader(content, keepLimit, (value) => values.push(value));
  let start = 0;
  for (const end of [...cuts, bytes.length]) {
    reader.read(bytes.subarray(start, end));
    start = end;
  }
  expect(reader.hasLost).to.equal(false);
  return values;
}

const cases: Readonly<Record<string, readonly [text: string, values: unknown[]]>> = {
  escapes: [String.raw`{"content":"a\\","x":"\"content\":\"no\"","content" : "\"\\\"}\\"}`, ['a\\', '"\\"}\\']],
  'escaped surrogates': [String.raw`{"content":"\ud83d\ude00\ud83d","content":"\u0022"}`, ['😀\ud83d', '"']],
  'UTF-8 sequences': ['{"content":"é€😀","content":{"ключ":"日本"}}', ['é€😀', { ключ: '日本' }]],
  'nested objects': [
    '{"content":{"a":{"b":"}","c":[{"d":"{\\"}"}]},"content":"in"}, "content":\n\t{}}',
    [{ a: { b: '}', c: [{ d: '{"}' }] }, content: 'in' }, {}],
  ],
  'an event stream': [
    'data: {"content":"a"}\n\n: "conten\ndata: {"content":null}\n\ndata: {"content" \r\n:\t"b"}\n\n',
    ['a', 'b'],
  ],
  'what only looks like the key': [
    '["content","content" "content":"a", "con"content":"b", "content"content":"c","content":"content":"d"]',
    ['a', 'b', 'content'],
  ],
};

describe('the value reader', () => {
  for (const [what, [text, values]] of Object.entries(cases)) {
    it(`finds the same values however the bytes are cut: ${what}`, () => {
      const { length } = Buffer.from(text);
      expect(valuesOf(text)).to.deep.equal(values);
      for (let first = 0; first <= length; first += 1) {
        for (let second = first; second <= length; second += 1) {
          expect(valuesOf(text, [first, second]), `cut at ${first} and ${second}`).to.deep.equal(values);
        }
      }
      const everywhere = Array.from({ length }, (_, i) => i);
      expect(valuesOf(text, everywhere), 'byte for byte').to.deep.equal(values);
    });
  }

  it('reads a megabyte of long values byte by byte in less than 4 seconds of CPU time', () => {
    const long = 'x\\"é'.repeat(9_000);
    const text = Buffer.from(`data: {"content":${JSON.stringify({ a: long })}}\n\n`.repeat(16));
    expect(text.length).to.be.above(1_000_000);
    const everywhere = Array.from({ length: text.length }, (_, i) => i);
    const began = process.cpuUsage();
    const values = valuesOf(text, everywhere);
    const { user, system } = process.cpuUsage(began);
    expect(values).to.deep.equal(valuesOf(text));
    expect((user + system) / 1e6, 'CPU seconds').to.be.below(4);
  });

  it('drops a value beyond its limit, and finds the next one', () => {
    for (const size of [1, 1_000, keepLimit - 1]) {
      const values: unknown[] = [];
      const reader = new ValueReader(content, keepLimit, (value) => values.push(value));
      const bytes = Buffer.from(`{"content":"${'x'.repeat(2 * keepLimit)}","content":"next"}`);
      for (let at = 0; at < bytes.length; at += size) reader.read(bytes.subarray(at, at + size));
      expect([reader.hasLost, values], `pieces of ${size}`).to.deep.equal([true, ['next']]);
    }
  });
});
