import { allOf, settings } from './settings.ts';
import { useGateway } from './use.ts';

/** By what they are about: the long tests take them one by one. */
const groups = {
  'every setting of mongoose': (name: string) => name.startsWith('mongoose.set'),
  'plugins, default types and replaced methods': (name: string) => /plugin|Types|replaced/.test(name),
  // the driver wants one form of 64-bit integers
  'options of a connection, with plain values': (name: string) => name.startsWith('{') && !/promote/.test(name),
  'options of a connection, with values of BSON': (name: string) => name.startsWith('{') && !/BigInt/.test(name),
} as const;

describe('Nothing that a host sets changes what a gateway does:', () => {
  for (const [name, isIn] of Object.entries(groups)) {
    it(name, () => useGateway(allOf(name, ...settings.filter((setting) => isIn(setting.name)))));
  }
});
