import { inspect } from 'node:util';
import { expect } from 'chai';
import { createModelGateway } from '../../src/index.ts';
import { newSecretKey } from '../support/gateway.ts';
import { silentLogger } from '../support/logger.ts';
import { freshDatabase } from '../support/mongo.ts';
import { run } from './command.ts';
import { command } from './recorded-terminal.ts';

const canary = 'canary-password';
const secretKey = newSecretKey();

/** The commands that open the database themselves, each with what it prints. */
async function outputs(uri: string): Promise<{ name: string; text: string }[]> {
  const env = { MONGODB_URI: uri, SECRET_KEYS: secretKey, PORT: '0' };
  const inProcess = [['doctor'], ['migrate'], ['keys', 'create', '--database', '--user', 'usr_1'], ['reseal']];
  const printed = await Promise.all([
    ...inProcess.map((args) => command(args, { env })),
    // its environment is its process's, and so is its log
    run(['start'], env),
  ]);
  const names = [...inProcess.map(([name = '']) => name), 'start'];
  for (const [i, { code }] of printed.entries()) expect(code, names[i]).to.be.oneOf([1, 2]);
  return printed.map(({ stdout, stderr }, i) => ({ name: names[i] ?? '', text: `${stdout}\n${stderr}` }));
}

describe('A fault of the database', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let host: string;
  const inAdmin = (request: Record<string, unknown>) => database.connection.getClient().db('admin').command(request);

  before(async () => {
    database = await freshDatabase();
    host = new URL(database.uri).host;
    await inAdmin({ createUser: 'without-rights', pwd: canary, roles: [] });
  });
  after(async () => {
    await inAdmin({ dropUser: 'without-rights' });
    await database.drop();
  });

  const faults: readonly [name: string, uri: () => string, problem: string, reason: string, remedy: string][] = [
    [
      'a wrong password',
      () => `mongodb://gateway:${canary}@${host}/app?authSource=admin`,
      'the database refuses the user name or the password in the URI',
      'Authentication failed',
      'authSource',
    ],
    [
      'a user that may use nothing',
      () => `mongodb://without-rights:${canary}@${host}/app?authSource=admin`,
      'its user has too few rights',
      'not authorized on app to execute command',
      "grant it the role readWrite on the database 'app'",
    ],
    [
      'no user where the database wants one',
      () => `mongodb://${host}/app`,
      'the database wants a user name and a password',
      'requires authentication',
      'put them into the URI',
    ],
    [
      'an @ in the password that is not percent-encoded',
      () => `mongodb://gateway:${canary}@${canary}@${host}/app`,
      'the URI is not valid',
      'an @ is not percent-encoded',
      '@ is %40',
    ],
    [
      'an @ and a slash in the password, so that a part of it looks like a host',
      () => `mongodb://gateway:${canary}@${canary}/x@${host}/app`,
      'the URI is not valid',
      'an @ is not percent-encoded',
      '@ is %40',
    ],
    [
      'an @ and a question mark in the password, so that a part of it looks like an option',
      () => `mongodb://gateway:${canary}@x?${canary}@${host}/app`,
      'the URI is not valid',
      'an @ is not percent-encoded',
      '@ is %40',
    ],
    [
      'a slash in the password',
      () => `mongodb://gateway:x/${canary}@${host}/app`,
      'the URI is not valid',
      'Password contains unescaped characters',
      '/ is %2F',
    ],
    [
      'a % in the password that begins no escape',
      () => `mongodb://gateway:${canary}%zz@${host}/app`,
      'the URI is not valid',
      'URI malformed',
      '% is %25',
    ],
    [
      'a colon instead of the @ behind the password',
      () => `mongodb://gateway:${canary}:${host}/app`,
      'the URI is not valid',
      'a host or a port in it is not valid',
      'mongodb://<user>:<password>@<host>',
    ],
    [
      'an option that there is not',
      () => `mongodb://gateway:${canary}@${host}/app?replicaset=gateway&nonsense=1`,
      'the URI is not valid',
      'option nonsense is not supported',
      'it has the form',
    ],
    [
      'a tlsCAFile that does not exist',
      () => `mongodb://gateway:${canary}@${host}/app?tls=true&tlsCAFile=/nowhere/ca.pem`,
      'a file that the URI names cannot be read',
      "no such file or directory, open '/nowhere/ca.pem'",
      'correct tlsCAFile',
    ],
    [
      'a name without SRV records',
      () => `mongodb+srv://gateway:${canary}@cluster.nowhere.invalid/app`,
      'there are no DNS records for the name',
      '_mongodb._tcp.cluster.nowhere.invalid',
      'check the host name',
    ],
  ];

  /** What the library says, and what each command does, about one URI. */
  async function expectNamed(uri: string, problem: string, reason: string, remedy: string): Promise<void> {
    const options = { mongo: uri, secretKeys: [secretKey], logger: silentLogger };
    const [error, printed] = await Promise.all([
      createModelGateway(options).catch((thrown: unknown) => thrown),
      outputs(uri),
    ]);
    expect(error).to.include({ name: 'GatewayError', code: 'invalid_options', param: 'mongo' });
    const { message } = error as Error;
    expect(message).to.match(/^mongo: /);
    for (const part of [problem, reason, remedy]) expect(message).to.include(part);
    expect(inspect(error, { depth: 10, showHidden: true })).to.not.include('canary');
    for (const { name, text } of printed) {
      expect(text, name).to.include(`MONGODB_URI: ${problem}`).and.include(reason).and.include(remedy);
      expect(text, name)
        .to.not.include('canary')
        .and.not.include('mongo: ')
        .and.not.match(/\n +at /);
    }
  }

  for (const [name, uri, problem, reason, remedy] of faults) {
    it(`has a message of its own, without the password: ${name}`, () => expectNamed(uri(), problem, reason, remedy));
  }

  it('has a message of its own where no server answers, or none is a member of the set that the URI names', async () => {
    // each is tried for ten seconds, for elections and databases that start together with the gateway
    await Promise.all([
      expectNamed(
        `mongodb://gateway:${canary}@127.0.0.1:9/app`,
        'the database cannot be reached',
        'connect ECONNREFUSED 127.0.0.1:9',
        'check the hosts and ports in the URI',
      ),
      expectNamed(
        `mongodb://gateway:${canary}@${host}/app?replicaSet=another&serverSelectionTimeoutMS=1000`,
        "no server of the URI belongs to the replica set 'another'",
        'Server selection timed out',
        'correct replicaSet in the URI',
      ),
    ]);
  });

  it('is one finding of doctor, and not one for each check, where its user may read nothing', async () => {
    const env = { MONGODB_URI: `mongodb://without-rights:${canary}@${host}/app?authSource=admin` };
    const { json } = await command(['doctor', '--json'], { env });
    const found = (json.findings as { status: string; check: string; remedy?: string }[]).filter(
      ({ status }) => status === 'failed' || status === 'warning',
    );
    expect(found.map(({ check }) => check)).to.deep.equal(['database']);
    expect(found[0]?.remedy).to.equal("grant it the role readWrite on the database 'app'");
  });
});
