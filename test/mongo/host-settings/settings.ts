import mongoose, { type Connection, type Schema } from 'mongoose';
import type { HostSetting } from './use.ts';

/** As `mongoose.set` takes them; a host may set any. */
const globals: Readonly<Record<string, unknown>> = {
  sanitizeFilter: true,
  sanitizeProjection: true,
  strict: 'throw',
  strictQuery: 'throw',
  strictPopulate: true,
  runValidators: true,
  autoIndex: true,
  autoCreate: true,
  bufferCommands: false,
  bufferTimeoutMS: 1,
  maxTimeMS: 1,
  id: false,
  ...(!mongoose.version.startsWith('8.') && { returnDocument: 'after' }),
  translateAliases: true,
  setDefaultsOnInsert: false,
  transactionAsyncLocalStorage: true,
  cloneSchemas: true,
  overwriteModels: true,
  'timestamps.createdAt.immutable': true,
};

/** What must not be called. */
function forbidden(): never {
  throw new Error('the gateway uses what is the host’s');
}

function setGlobal(name: string, value: unknown): HostSetting {
  const set = mongoose.set.bind(mongoose) as (key: string, to: unknown) => unknown;
  return {
    name: `mongoose.set('${name}', …)`,
    prepare() {
      const before = mongoose.get(name as 'debug');
      set(name, value);
      return () => void set(name, before);
    },
  };
}

const plugins: Readonly<Record<string, (schema: Schema) => void>> = {
  'that hides what is deleted': (schema) => {
    schema.add({ deleted: { type: Boolean, default: false } });
    const hide = function (this: mongoose.Query<unknown, unknown>) {
      this.where({ deleted: false });
    };
    schema.pre(/^(find|update|delete|count)/, hide);
    schema.pre('aggregate', function () {
      this.pipeline().unshift({ $match: { deleted: false } });
    });
  },
  'that wants a tenant': (schema) => {
    schema.add({ tenantId: { type: String, required: true, index: true } });
    schema.pre(/^(find|update|delete|count|save|validate|insertMany|bulkWrite|aggregate)/, forbidden);
  },
  'that adds timestamps': (schema) => {
    schema.set('timestamps', true);
  },
  'that refuses every schema': forbidden,
};

const pluginRows: readonly HostSetting[] = Object.entries(plugins).flatMap(([name, plugin]) => [
  {
    name: `mongoose.plugin, one ${name}`,
    prepare() {
      mongoose.plugin(plugin);
      // no type shows them
      const { plugins: added } = mongoose as unknown as { readonly plugins: [typeof plugin][] };
      return () =>
        void added.splice(
          added.findIndex(([fn]) => fn === plugin),
          1,
        );
    },
  },
  {
    name: `connection.plugin, one ${name}`,
    connected: (connection: Connection) => {
      connection.plugin(plugin);
      return connection;
    },
  },
]);

/** Replaces methods, as packages that cache or trace queries do. */
function replacing(name: string, target: object, ...methods: readonly string[]): HostSetting {
  return {
    name: `${name}, replaced`,
    prepare() {
      const own = target as Record<string, unknown>;
      const before = methods.map((method) => own[method]);
      for (const method of methods) own[method] = forbidden;
      return () => {
        for (const [i, method] of methods.entries()) own[method] = before[i];
      };
    },
  };
}

const types: HostSetting = {
  name: 'mongoose.Schema.Types.String.set',
  prepare() {
    const { String: Text } = mongoose.Schema.Types;
    for (const option of ['lowercase', 'trim', 'required']) Text.set(option, true);
    return () => {
      for (const option of ['lowercase', 'trim', 'required']) Text.set(option, undefined);
    };
  },
};

/** Of connections: mongoose's own, and those of the driver. */
const connections: readonly mongoose.ConnectOptions[] = [
  { autoIndex: true, autoCreate: true },
  { bufferCommands: false },
  { readPreference: 'nearest' },
  { writeConcern: { w: 1 } },
  { retryWrites: false, retryReads: false },
  { readConcernLevel: 'majority' },
  { promoteLongs: false },
  { promoteValues: false },
  { promoteBuffers: true },
  { useBigInt64: true },
  { bsonRegExp: true },
  { ignoreUndefined: true },
  { serializeFunctions: true },
  { raw: true },
  { enableUtf8Validation: false },
  { forceServerObjectId: true },
  { serverApi: { version: '1', strict: true, deprecationErrors: true } },
  { monitorCommands: true },
  { timeoutMS: 1_000 },
];

/** The setting and a debugger of queries, which would print what is stored. */
const debug = setGlobal('debug', (collection: string) => {
  if (collection.startsWith('gateway_')) forbidden();
});

export const settings: readonly HostSetting[] = [
  ...Object.entries(globals).map(([name, value]) => setGlobal(name, value)),
  debug,
  setGlobal('toJSON', { transform: forbidden }),
  setGlobal('toObject', { transform: forbidden }),
  ...pluginRows,
  replacing('Query.prototype.exec', mongoose.Query.prototype, 'exec'),
  replacing('Aggregate.prototype.exec', mongoose.Aggregate.prototype, 'exec'),
  replacing('Model', mongoose.Model, 'bulkWrite', 'create', 'insertMany'),
  replacing('Model.prototype.save', mongoose.Model.prototype, 'save'),
  types,
  ...connections.map((connection) => ({ name: JSON.stringify(connection), connection })),
  { name: 'connection.useDb', connected: (connection) => connection.useDb(`${connection.name}_2`) },
];

/** Several settings at once, the last ones over the first. */
export function allOf(name: string, ...all: readonly HostSetting[]): HostSetting {
  return {
    name,
    prepare() {
      const undos = all.map(({ prepare }) => prepare?.());
      return () => {
        for (const undo of undos.reverse()) undo?.();
      };
    },
    connection: Object.assign({}, ...all.map(({ connection }) => connection)),
    connected: (connection) => all.reduce((opened, { connected }) => connected?.(opened) ?? opened, connection),
  };
}
