import { httpUrl, listOf, textOf, wholeNumber } from './readers.ts';
import { variable } from './variable.ts';

const secretKey = textOf(/^[A-Za-z0-9_-]{1,32}:[A-Za-z0-9+/_-]{43}=?$/, '<id>:<32 bytes in base64>');

/** Where the gateway listens, keeps its data and relays to. */
export const serverVariables = {
  PORT: variable({
    meaning: 'Port to listen on; 0 takes a free one',
    reader: wholeNumber(0, 65_535),
    default: '3000',
    example: '8080',
  }),
  HOST: variable({
    meaning: 'Address to listen on; loopback by default, 0.0.0.0 for every interface',
    reader: textOf(/^[A-Za-z0-9.:_-]+$/, 'a host name or an address'),
    default: '127.0.0.1',
    example: '0.0.0.0',
  }),
  DATA_DIR: variable({
    meaning: 'Folder for the embedded database and the secret key',
    reader: textOf(/^[^\0]+$/, 'a path'),
    default: '.data',
    example: '/var/lib/gateway',
  }),
  MONGODB_URI: variable({
    meaning: 'A MongoDB replica set to use in place of the embedded one',
    reader: textOf(/^mongodb(\+srv)?:\/\/\S+$/, 'a mongodb:// or mongodb+srv:// URI'),
    default: 'the embedded database',
    example: 'mongodb://db1,db2,db3/gateway?replicaSet=rs0',
    secret: true,
  }),
  SECRET_KEYS: variable({
    meaning:
      'Keys that seal webhook secrets, separated by commas; the first seals, all open. Required with MONGODB_URI',
    reader: listOf(secretKey, 100, '<id>:<32 bytes in base64>, several separated by commas'),
    default: 'a key made once in DATA_DIR/secret.key',
    example: 'k1:<openssl rand -base64 32>',
    secret: true,
  }),
  COLLECTION_PREFIX: variable({
    meaning: 'Put before the name of every collection',
    reader: textOf(/^[A-Za-z][A-Za-z0-9_-]{0,40}$/, 'a letter, then at most 40 letters, digits, _ and -'),
    default: 'gateway_',
    example: 'llm_',
  }),
  UPSTREAM_BASE_URL: variable({
    meaning: 'Where model calls are relayed to, an OpenAI-compatible API',
    reader: httpUrl,
    default: 'a demo upstream with the model demo-echo',
    example: 'https://api.openai.com/v1',
  }),
  UPSTREAM_API_KEY: variable({
    meaning: 'Sent to the upstream as its bearer token',
    reader: textOf(/^[\x21-\x7e]+$/, 'printable ASCII without spaces'),
    default: 'none',
    example: 'sk-…',
    secret: true,
  }),
  UPSTREAM_NAME: variable({
    meaning: 'What the upstream is called in logs and usage records',
    reader: textOf(/^[\w.-]{1,64}$/, '1 to 64 letters, digits, ., _ and -'),
    default: 'upstream',
    example: 'openai',
  }),
};
