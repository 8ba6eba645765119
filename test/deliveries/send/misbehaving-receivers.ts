import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Certificate } from '../../support/servers/certificates.ts';
import { after, closingAfter, endlessly, type Play, resettingAfter } from '../../support/servers/raw-receiver.ts';

/** A receiver that misbehaves, and the code its attempt is recorded under (`delivered` where it is none). */
export interface Misbehaviour {
  readonly kind: string;
  readonly play: Play;
  readonly code: string;
  /** Whether the attempt takes as long as it may. @default false */
  readonly untilDeadline?: boolean;
  /** TLS is spoken with this certificate. @default none */
  readonly certificate?: 'expired' | 'of another name' | 'self-signed';
  /** @default https where there is a certificate */
  readonly scheme?: 'http' | 'https';
  /** Bytes. @default a few */
  readonly bodySize?: number;
}

export type Certificates = Readonly<Record<NonNullable<Misbehaviour['certificate']>, Certificate>>;

const ok = 'HTTP/1.1 200 OK\r\n';
const megabyte = Buffer.alloc(1024 * 1024, 'a');
/** 64 MB of zeros in 64 KB, again and again: 1 : 1,000. */
const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
/** 64 MB in a few hundred bytes, which are read and decompressed. */
const brotliBomb = brotliCompressSync(Buffer.alloc(64 * 1024 * 1024), {
  params: { [constants.BROTLI_PARAM_QUALITY]: 5 },
});
const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, 'a'), Buffer.from('\r\n')]);
const moved = (to: string) => `HTTP/1.1 302 Found\r\nlocation: ${to}\r\ncontent-length: 0\r\n\r\n`;
const silent: Play = () => {};

/** Every kind, some of them in several forms. What is dropped after a failed attempt or 4 KiB is nobody's loss. */
export const misbehaviours: readonly Misbehaviour[] = [
  {
    kind: 'an endless body in chunks',
    play: endlessly(`${ok}transfer-encoding: chunked\r\n\r\n`, chunk),
    code: 'delivered',
  },
  { kind: 'an endless body without a length', play: endlessly(`${ok}\r\n`, megabyte), code: 'delivered' },
  {
    kind: 'an endless body under a 500',
    play: endlessly('HTTP/1.1 500 Oh\r\n\r\n', megabyte),
    code: 'http_500',
  },
  {
    kind: 'a body that drips',
    play: endlessly(`${ok}content-length: 4000\r\n\r\n`, 'a', 20),
    code: 'delivered',
    untilDeadline: true,
  },
  {
    kind: 'a body under a 503 that drips',
    play: endlessly('HTTP/1.1 503 No\r\ncontent-length: 4000\r\n\r\n', 'a', 20),
    code: 'http_503',
    untilDeadline: true,
  },
  {
    kind: 'chunk extensions never ending',
    play: endlessly(`${ok}transfer-encoding: chunked\r\n\r\n5;`, 'a=b;'.repeat(1000), 5),
    code: 'delivered',
    untilDeadline: true,
  },
  { kind: 'headers never ending, slowly', play: endlessly(ok, 'x-a: b\r\n', 20), code: 'timeout', untilDeadline: true },
  { kind: 'headers never ending, fast', play: endlessly(ok, 'x-a: b\r\n'.repeat(10_000)), code: 'delivered' },
  {
    kind: 'a status line never ending',
    play: endlessly('HTTP/1.1 200 O', 'k'.repeat(1000), 5),
    code: 'timeout',
    untilDeadline: true,
  },
  { kind: 'a header of 1 MB', play: after(`${ok}x-a: `, megabyte, '\r\n\r\n'), code: 'delivered' },
  {
    kind: 'a header name of 1 MB',
    play: after(ok, megabyte, ': b\r\n\r\n'),
    code: 'delivered',
  },
  {
    kind: 'a gzip bomb',
    play: endlessly(`${ok}content-encoding: gzip\r\n\r\n`, bomb),
    code: 'delivered',
  },
  {
    kind: 'a brotli bomb',
    play: closingAfter(`${ok}content-encoding: br\r\n\r\n`, brotliBomb),
    code: 'delivered',
  },
  {
    kind: 'a content-length beyond the body, and silence',
    play: after(`${ok}content-length: 100\r\n\r\nshort`),
    code: 'delivered',
    untilDeadline: true,
  },
  {
    kind: 'a content-length beyond the body, and the end',
    play: closingAfter(`${ok}content-length: 100\r\n\r\nshort`),
    code: 'delivered',
  },
  {
    kind: 'a content-length beyond the body, and the announced end',
    play: closingAfter(`${ok}connection: close\r\ncontent-length: 100\r\n\r\nshort`),
    code: 'delivered',
  },
  {
    kind: 'chunks without a last one, and the announced end',
    play: closingAfter(`${ok}connection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n`),
    code: 'delivered',
  },
  {
    kind: 'a content-length below the body',
    play: after(`${ok}content-length: 2\r\n\r\nlonger than that`),
    code: 'delivered',
  },
  {
    kind: 'two content-lengths',
    play: after(`${ok}content-length: 2\r\ncontent-length: 3\r\n\r\nabc`),
    code: 'delivered',
  },
  { kind: 'lines that end with LF alone', play: after('HTTP/1.1 200 OK\ncontent-length: 0\n\n'), code: 'delivered' },
  {
    kind: 'lines that end with LF alone under a 500',
    play: after('HTTP/1.1 500 Oh\ncontent-length: 0\n\n'),
    code: 'http_500',
  },
  {
    kind: 'a header of 1 MB under a 503',
    play: after('HTTP/1.1 503 No\r\nx-a: ', megabyte, '\r\n\r\n'),
    code: 'http_503',
  },
  {
    kind: 'two content-lengths under a redirect',
    play: after('HTTP/1.1 302 Found\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc'),
    code: 'redirect',
  },
  {
    kind: 'a content-length and chunks',
    play: after(`${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`),
    code: 'delivered',
  },
  {
    kind: 'a content-length that is no number',
    play: after(`${ok}content-length: -1\r\n\r\n`),
    code: 'delivered',
  },
  {
    kind: 'a chunk whose length is no number',
    play: after(`${ok}transfer-encoding: chunked\r\n\r\nzz\r\n`),
    code: 'delivered',
  },
  { kind: 'a redirect chain', play: after(moved('/next')), code: 'redirect' },
  { kind: 'a redirect to loopback', play: after(moved('http://127.0.0.1:1/')), code: 'redirect' },
  { kind: 'a permanent redirect', play: after(moved('/').replace('302', '308')), code: 'redirect' },
  { kind: 'an expired certificate', play: after(`${ok}\r\n`), certificate: 'expired', code: 'tls_failed' },
  {
    kind: 'a certificate of another name',
    play: after(`${ok}\r\n`),
    certificate: 'of another name',
    code: 'tls_failed',
  },
  { kind: 'a self-signed certificate', play: after(`${ok}\r\n`), certificate: 'self-signed', code: 'tls_failed' },
  { kind: 'a reset at once', play: (socket) => void socket.resetAndDestroy(), code: 'reset' },
  { kind: 'a reset after the request', play: resettingAfter(''), code: 'reset' },
  { kind: 'a reset in the head', play: resettingAfter(`${ok}x-a: `), code: 'reset' },
  { kind: 'a reset in the body', play: resettingAfter(`${ok}content-length: 10\r\n\r\nhalf`), code: 'delivered' },
  {
    kind: 'a reset in the body of a 500',
    play: resettingAfter('HTTP/1.1 500 Oh\r\ncontent-length: 10\r\n\r\nhalf'),
    code: 'http_500',
  },
  { kind: 'half a connection: it writes no more and reads on', play: (socket) => void socket.end(), code: 'reset' },
  { kind: 'half a connection: it has gone without a word', play: silent, code: 'timeout', untilDeadline: true },
  { kind: 'HTTP/0.9', play: closingAfter('<html>Hello</html>'), code: 'invalid_response' },
  { kind: 'a 204', play: after('HTTP/1.1 204 No Content\r\n\r\n'), code: 'delivered' },
  {
    kind: 'a 204 with a body',
    play: after('HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello'),
    code: 'delivered',
  },
  { kind: 'a 304', play: after('HTTP/1.1 304 Not Modified\r\n\r\n'), code: 'http_304' },
  {
    kind: 'a 304 with the length of what it leaves out',
    play: after('HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n'),
    code: 'http_304',
  },
  {
    kind: 'a status that there is not',
    play: after('HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n'),
    code: 'http_999',
  },
  {
    kind: 'a flood of 1xx',
    play: endlessly('', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(50)),
    code: 'invalid_response',
  },
  {
    kind: 'a few 1xx, and nothing',
    play: after('HTTP/1.1 102 Processing\r\n\r\n'),
    code: 'timeout',
    untilDeadline: true,
  },
  {
    kind: 'a few 1xx, and a 200',
    play: after('HTTP/1.1 102 Processing\r\n\r\n'.repeat(3), `${ok}content-length: 0\r\n\r\n`),
    code: 'delivered',
  },
  {
    kind: 'another protocol by 101',
    play: after('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
    code: 'invalid_response',
  },
  {
    kind: 'an answer before the body is read',
    play: (socket) => void socket.pause().write(`${ok}content-length: 0\r\n\r\n`),
    bodySize: 8 * 1024 * 1024,
    code: 'delivered',
  },
  {
    kind: 'bytes of another protocol',
    play: (socket) => void socket.write('SSH-2.0-OpenSSH_9.6\r\n'),
    code: 'invalid_response',
  },
  { kind: 'random bytes', play: after(Buffer.from([0, 255, 1, 254, 22, 3])), code: 'invalid_response' },
  {
    kind: 'no TLS where TLS should be',
    play: (socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
    scheme: 'https',
    code: 'tls_failed',
  },
  {
    kind: 'a reset in the TLS handshake',
    play: (socket) => void socket.once('data', () => socket.resetAndDestroy()),
    scheme: 'https',
    code: 'reset',
  },
  {
    kind: 'a TLS handshake that nobody answers',
    play: silent,
    scheme: 'https',
    code: 'connect_timeout',
    untilDeadline: true,
  },
  {
    kind: '100-continue, and nothing',
    play: after('HTTP/1.1 100 Continue\r\n\r\n'),
    code: 'timeout',
    untilDeadline: true,
  },
  {
    kind: '100-continue that nobody asked for, and a 200',
    play: after('HTTP/1.1 100 Continue\r\nx-a: b\r\n\r\n', 'HTTP/1.1 100\r\n\r\n', `${ok}content-length: 0\r\n\r\n`),
    code: 'delivered',
  },
];
