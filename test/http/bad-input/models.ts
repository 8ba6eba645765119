import { chats, goodChat, type Row } from './row.ts';

export const models: Row[] = [
  ['no model', chats, { body: { messages: goodChat.messages } }, 400, 'missing_required_parameter', 'model'],
  ['no messages', chats, { body: { model: 'm' } }, 400, 'missing_required_parameter', 'messages'],
  ['an empty model', chats, { body: { ...goodChat, model: '' } }, 400, 'invalid_value', 'model'],
  ['a number as model', chats, { body: { ...goodChat, model: 5 } }, 400, 'invalid_type', 'model'],
  ['a string as messages', chats, { body: { ...goodChat, messages: 'hi' } }, 400, 'invalid_type', 'messages'],
  ['an empty conversation', chats, { body: { ...goodChat, messages: [] } }, 400, 'invalid_value', 'messages'],
  [
    'a message without a role',
    chats,
    { body: { ...goodChat, messages: [{ content: 'x' }] } },
    400,
    'missing_required_parameter',
    'messages[0].role',
  ],
  [
    'a number as content',
    chats,
    { body: { ...goodChat, messages: [...goodChat.messages, { role: 'user', content: 1 }] } },
    400,
    'invalid_type',
    'messages[1].content',
  ],
  ['a word as stream', chats, { body: { ...goodChat, stream: 'yes' } }, 400, 'invalid_type', 'stream'],
  ['no input', 'POST /v1/embeddings', { body: { model: 'm' } }, 400, 'missing_required_parameter', 'input'],
  ['an object as input', 'POST /v1/embeddings', { body: { model: 'm', input: {} } }, 400, 'invalid_type', 'input'],
  ['no prompt', 'POST /v1/images/generations', { body: { model: 'm' } }, 400, 'missing_required_parameter', 'prompt'],
];
