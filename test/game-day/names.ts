import dns from 'node:dns';
import dnsPromises from 'node:dns/promises';
import { syncBuiltinESMExports } from 'node:module';
import { startNameServer } from '../support/servers/name-server.ts';

/** The names that only the tests' own name server knows. */
const ours = /\.game-day\.example$/;

/**
 * Has this process ask a real name server on loopback for `*.game-day.example`: with c-ares, as for receivers, and where upstreams are looked up
 * (`dns.lookup`). A test cannot change /etc/resolv.conf, from which both take their servers.
 */
export async function useNameServer() {
  const toLoopback = () => ({ addresses: ['127.0.0.1'] });
  const server = await startNameServer(toLoopback);
  const { Resolver } = dnsPromises;
  const { lookup } = dns;

  class OurResolver extends Resolver {
    constructor(options?: ConstructorParameters<typeof Resolver>[0]) {
      super(options);
      this.setServers([server.address]);
    }
  }
  Object.assign(dnsPromises, { Resolver: OurResolver });
  Object.assign(dns, {
    lookup(name: string, options: dns.LookupOptions, done: (error: Error | null, ...found: unknown[]) => void) {
      if (!ours.test(name)) return lookup(name, options, done as never);
      new OurResolver({ timeout: 250, tries: 2 }).resolve4(name).then(
        ([address]) => (options.all ? done(null, [{ address, family: 4 }]) : done(null, address, 4)),
        // as getaddrinfo says it
        () => done(Object.assign(new Error(`getaddrinfo EAI_AGAIN ${name}`), { code: 'EAI_AGAIN' })),
      );
    },
  });
  syncBuiltinESMExports();
  return {
    /** Reads what is asked, and answers nothing. */
    hang: () => server.answers(() => new Promise(() => {})),
    answer: () => server.answers(toLoopback),
    stop() {
      Object.assign(dnsPromises, { Resolver });
      Object.assign(dns, { lookup });
      syncBuiltinESMExports();
      server.stop();
    },
  };
}
