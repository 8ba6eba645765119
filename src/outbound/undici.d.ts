// The modules of undici that the gateway imports, each by its path: `undici` itself makes its own agent the one of the whole process, which the host's
// `fetch` then uses (Node 20's refuses a `content-length` of the caller's over it), and Bun puts a module of its own in its place, which cannot dispatch.

declare module 'undici/lib/api/api-connect.js' {
  import type { Dispatcher } from 'undici';
  /** `Dispatcher.prototype.connect`, which is there only once all of undici is loaded. */
  export default function connect(
    this: Dispatcher,
    options: Omit<Dispatcher.ConnectOptions, 'origin'>,
  ): Promise<Dispatcher.ConnectData>;
}

declare module 'undici/lib/core/connect.js' {
  export { buildConnector as default } from 'undici';
}

declare module 'undici/lib/core/errors.js' {
  export { errors as default } from 'undici';
}

declare module 'undici/lib/dispatcher/agent.js' {
  export { Agent as default } from 'undici';
}

declare module 'undici/lib/dispatcher/client.js' {
  export { Client as default } from 'undici';
}
