/** What is left of a name in a language that writes its names in its own case. */
const bare = (name) =>
  String(name)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '');

/** The names that follow one that is the same in another case, each with the one before it. */
function collisions(names) {
  const known = new Map();
  return names.flatMap((name, index) => {
    const earlier = known.get(bare(name));
    known.set(bare(name), name);
    return earlier === undefined ? [] : [{ name, earlier, index }];
  });
}

/** What generators put before a name: Go's for what makes a `Webhook`, TypeScript's for an `Error`, which the language has. */
const prefixes = ['New', 'Model'];

/** Names of schemas, properties and values of which generated clients make one and the same. */
function noCollisions() {
  return {
    NamedSchemas(schemas, { report, location }) {
      const names = Object.keys(schemas);
      for (const { name, earlier } of collisions(names))
        report({ message: `${name} is ${earlier} in another case.`, location: location.child(name).key() });
      for (const name of names)
        for (const prefix of prefixes.filter((prefix) => names.includes(prefix + name)))
          report({
            message: `${prefix}${name} is what generators call ${name}.`,
            location: location.child(name).key(),
          });
    },
    SchemaProperties(properties, { report, location }) {
      for (const { name, earlier } of collisions(Object.keys(properties)))
        report({ message: `${name} is ${earlier} in another case.`, location: location.child(name).key() });
    },
    Schema({ enum: values = [] }, { report, location }) {
      for (const { name, earlier, index } of collisions(values.filter((value) => typeof value === 'string')))
        report({ message: `${name} is ${earlier} in another case.`, location: location.child(['enum', index]) });
    },
  };
}

export default () => ({ id: 'names', rules: { oas3: { 'no-collisions': noCollisions } } });
