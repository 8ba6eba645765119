import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { freshUri } from '../support/mongo.ts';
import { root } from './tarball.ts';

const run = promisify(execFile);

/** Runs a program of a host, which imports the package as it is published. @returns what it prints, read as JSON */
async function output(program: string, type: 'module' | 'commonjs' = 'module'): Promise<unknown> {
  const env = { ...process.env, MONGODB_URI: freshUri() };
  const { stdout } = await run('node', [`--input-type=${type}`, '-e', program], { cwd: root, env });
  return JSON.parse(stdout);
}

/** Defines `packages()`: the packages whose code has been loaded, in the order in which it was. */
const watchPackages = `
  import { Session } from 'node:inspector';
  const urls = [];
  const session = new Session();
  session.connect();
  session.on('Debugger.scriptParsed', ({ params }) => urls.push(params.url));
  session.post('Debugger.enable');
  const nameOf = (url) => /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1];
  const packages = () => [...new Set(urls.map(nameOf).filter(Boolean))];
`;

const options = `{
  mongo: process.env.MONGODB_URI,
  secretKeys: ['k1:' + Buffer.alloc(32, 1).toString('base64')],
  logger: { error() {}, warn() {}, info() {} },
}`;

describe('A process that loads the package', () => {
  for (const name of ['express-model-gateway', 'express-model-gateway/receiver']) {
    for (const [way, load] of [
      ['import', `await import('${name}')`],
      ['require', `createRequire(process.cwd() + '/')('${name}')`],
    ]) {
      it(`loads no other package with it: ${way} of ${name}`, async () => {
        const program = `import { createRequire } from 'node:module';${watchPackages}
          const { length } = Object.keys(${load});
          console.log(JSON.stringify({ exports: length > 0, files: urls.filter((url) => url.includes('/dist/')).length, packages: packages() }));`;
        const { files, ...loaded } = (await output(program)) as { files: number };
        expect(loaded).to.deep.equal({ exports: true, packages: [] });
        // those of its source are some 25 and 5
        expect(files).to.be.within(1, 10);
      });
    }
  }

  it('has one copy of each class, whichever way it loads it', async () => {
    const program = `
      import { createRequire } from 'node:module';
      const require = createRequire(process.cwd() + '/');
      const same = async (name) => {
        const [esm, cjs] = [await import(name), require(name)];
        return Object.keys(esm).filter((key) => esm[key] !== cjs[key]).concat(Object.keys(cjs).filter((key) => !(key in esm)));
      };
      const different = [...(await same('express-model-gateway')), ...(await same('express-model-gateway/receiver'))];
      const refused = await require('express-model-gateway').createModelGateway({}).catch((error) => error);
      const { GatewayError } = await import('express-model-gateway');
      console.log(JSON.stringify({ different, instance: refused instanceof GatewayError }));`;
    expect(await output(program)).to.deep.equal({ different: [], instance: true });
  });

  it('loads packages when the first gateway is made, and Agenda when it starts', async () => {
    const program = `${watchPackages}
      import { createModelGateway } from 'express-model-gateway';
      const gateway = await createModelGateway(${options});
      const made = packages();
      await gateway.start();
      const started = packages();
      await gateway.close();
      const isLoaded = (loaded) => ['express-openapi-validator', 'undici', 'helmet', 'agenda'].filter((name) => loaded.includes(name));
      console.log(JSON.stringify({ made: isLoaded(made), started: isLoaded(started) }));`;
    expect(await output(program)).to.deep.equal({
      made: ['express-openapi-validator', 'undici'],
      started: ['express-openapi-validator', 'undici', 'agenda'],
    });
  });

  it("keeps Node's own fetch, as its first call finds when a gateway has started: it takes a content-length of the host's", async () => {
    const program = `
      import { createServer } from 'node:http';
      import { createModelGateway } from 'express-model-gateway';
      const gateway = await createModelGateway(${options});
      await gateway.start();
      // where every copy of undici, and the one in Node, looks for the agent of the process
      const agents = [1, 2].map((version) => globalThis[Symbol.for('undici.globalDispatcher.' + version)]);
      const { default: Agent } = await import('undici/lib/dispatcher/agent.js');
      const server = createServer((req, res) => req.pipe(res)).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      const response = await fetch('http://127.0.0.1:' + server.address().port, { method: 'POST', headers: { 'content-length': '5' }, body: 'Hello' });
      console.log(JSON.stringify({ replaced: agents.some((agent) => agent instanceof Agent), echo: await response.text() }));
      server.closeAllConnections();
      server.close();
      await gateway.close();`;
    expect(await output(program)).to.deep.equal({ replaced: false, echo: 'Hello' });
  });

  it('compiles what the data of an event type must be at its first event, and the requests of a model endpoint at its first call', async () => {
    const program = `${watchPackages}
      import { createServer } from 'node:http';
      import { createModelGateway } from 'express-model-gateway';
      const gateway = await createModelGateway(${options});
      const { key } = await gateway.keys.create({ userId: 'usr_1' });
      const server = createServer(gateway.router).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.once('listening', resolve));
      async function chat() {
        const response = await fetch('http://127.0.0.1:' + server.address().port + '/v1/chat/completions', {
          method: 'POST',
          headers: { authorization: 'Bearer ' + key, 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'none', messages: [{ role: 'user', content: 'Hi' }] }),
        });
        return (await response.json()).error.code;
      }
      const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 2 };
      const publish = () => gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
      // a compiled schema is code without a file
      const compiled = () => urls.filter((url) => url === '').length;
      const compiling = [];
      for (const work of [publish, publish, chat, chat]) {
        const before = compiled();
        await work();
        compiling.push(compiled() > before);
      }
      console.log(JSON.stringify({ compiling, code: await chat() }));
      server.closeAllConnections();
      server.close();
      await gateway.close();`;
    expect(await output(program)).to.deep.equal({ compiling: [true, false, true, false], code: 'model_not_found' });
  });

  it('has no jobs where no ES module can be imported, as in Jest: start says what to do and begins nothing', async () => {
    // files of the package, and of the driver, are compiled as Jest compiles them without --experimental-vm-modules
    const program = `
      const Module = require('node:module');
      const vm = require('node:vm');
      const { dirname } = require('node:path');
      const compile = Module.prototype._compile;
      Module.prototype._compile = function (content, filename, ...more) {
        const isCompiled = ['/dist/', '/node_modules/mongodb/'].some((folder) => filename.startsWith(process.cwd() + folder));
        if (!isCompiled) return compile.call(this, content, filename, ...more);
        const require = (name) => this.require(name);
        require.resolve = (name) => Module._resolveFilename(name, this);
        const compiled = vm.runInThisContext(Module.wrap(content), { filename });
        return compiled.call(this.exports, this.exports, require, this, filename, dirname(filename));
      };
      const { createModelGateway, GatewayError } = require(process.cwd() + '/dist/index.cjs');
      (async () => {
        const gateway = await createModelGateway(${options});
        const { key } = await gateway.keys.create({ userId: 'usr_1' });
        const data = { user_id: 'usr_1', credits_remaining: 1, threshold: 2 };
        await gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
        const refused = await gateway.start().catch((error) => error);
        const { checks } = await gateway.health();
        await gateway.close();
        const { code, message } = refused;
        console.log(JSON.stringify({ key: key.slice(0, 4), error: refused instanceof GatewayError, code, message, workers: checks.workers }));
      })();`;
    const { message, ...rest } = (await output(program, 'commonjs')) as { message: string };
    expect(rest).to.deep.equal({ key: 'emg_', error: true, code: 'jobs_unavailable', workers: 'degraded' });
    expect(message).to.include('NODE_OPTIONS=--experimental-vm-modules');
  });

  it('makes a gateway where a test of its host has put another class in the place of Date', async () => {
    const program = `const { createModelGateway } = await import('express-model-gateway');
      globalThis.Date = class MockDate extends Date {};
      const gateway = await createModelGateway(${options});
      const { id } = await gateway.keys.create({ userId: 'usr_1' });
      console.log(JSON.stringify(id.startsWith('key_')));
      await gateway.close();`;
    expect(await output(program)).to.equal(true);
  });
});
