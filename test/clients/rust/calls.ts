interface Argument {
  readonly name: string;
  readonly type: string;
}

interface GeneratedFunction {
  readonly module: string;
  readonly name: string;
  readonly arguments: readonly Argument[];
  /** What it resolves to, such as `models::Webhook`. */
  readonly result: string;
}

const signature = /pub fn (\w+)\(configuration: &configuration::Configuration, (.*)\) -> Result<(.+), Error<\w+>> \{/g;

/** The functions in a file that openapi-generator has written, one for each operation. */
export function functionsIn(module: string, source: string): GeneratedFunction[] {
  return [...source.matchAll(signature)].map(([, name = '', list = '', result = '']) => ({
    module,
    name,
    // no type has a comma and a space in it but those of maps, which no name follows
    arguments: [...list.matchAll(/(\S+): (.+?)(?=, \S+: |$)/g)].map(([, name = '', type = '']) => ({ name, type })),
    result,
  }));
}

/** What reads the value of an argument from a call. */
function argumentOf({ name, type }: Argument): string {
  const key = JSON.stringify(name);
  if (type.endsWith('PathBuf>') && type.startsWith('Vec<')) return `call.files(${key})?`;
  if (type.endsWith('PathBuf>')) return `call.files(${key})?.pop()`;
  if (type.endsWith('PathBuf')) return `call.files(${key})?.remove(0)`;
  if (type === '&str') return `&call.parameter::<String>(${key})?`;
  if (type === 'Option<&str>') return `call.parameter::<Option<String>>(${key})?.as_deref()`;
  return `call.${type.includes('models::') ? 'model' : 'parameter'}(${key})?`;
}

/** The program that calls each function by its name, which other languages do by reflection. */
export function callsOf(functions: readonly GeneratedFunction[]): string {
  const arms = functions.map(({ module, name, arguments: list, result }) => {
    const values = ['configuration', ...list.map(argumentOf)].join(', ');
    // a file has no fields
    const made = `${module}::${name}(${values})${result.startsWith('reqwest::') ? '.map(|_| ())' : ''}`;
    return `        "${name}" => parsed(${made}),`;
  });
  return `use crate::{parsed, Call};
use gateway::apis::{configuration::Configuration, *};
use serde_json::Value;

pub fn make(configuration: &Configuration, call: &Call) -> Result<Value, String> {
    match call.function().as_str() {
${arms.join('\n')}
        name => Err(format!("there is no function {name}")),
    }
}
`;
}
