import { expect } from 'chai';
import { JsonMembers } from '../../../src/http/json/search.ts';

const names = ['status', 'usage', 'output'];
const kept = 64;

function read(text: string, step: number) {
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
const table: [name: string, text: string, expected: Partial<ReturnType<typeof read>>][] = [
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

describe('members of an object', () => {
  for (const [name, text, expected] of table) {
    it(`are read with ${name}, however the bytes are split`, () => {
      for (const step of [1, 2, 3, 7, text.length * 4]) {
        expect(read(text, step), `by ${step}`).to.deep.equal({ values: {}, lengths: {}, isWhole: true, ...expected });
      }
    });
  }
});
