import type { operations } from '../../api.d.ts';
import { resolveSchema } from '../../openapi/schemas.ts';
import { bodiesOf, type Spec, type SpecSchema, sharedSpec, specMethods } from '../../openapi/spec.ts';

export type OperationId = keyof operations;

type Responses<Id extends OperationId> = operations[Id]['responses'];

/** The JSON that an operation answers. */
export type AnswerOf<Id extends OperationId> = Responses<Id>[keyof Responses<Id> & (200 | 201 | 202)] extends {
  content: { 'application/json': infer Body };
}
  ? Body
  : unknown;

/** A value that an operation takes. */
export interface Input {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header' | 'body';
  readonly required: boolean;
  readonly description: string;
  readonly schema: SpecSchema;
  readonly example?: unknown;
}

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly summary: string;
  readonly description: string;
  /** What the key must be good for. */
  readonly scope: string | undefined;
  readonly inputs: readonly Input[];
  readonly isForm: boolean;
  /** The answer is not JSON, but the bytes of a file. */
  readonly answersFile: boolean;
}

/** An operation as openapi.yaml describes it. @throws Error if it does not */
export function operationOf(id: OperationId): Operation {
  const spec = sharedSpec();
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const method of specMethods) {
      const operation = item[method];
      if (operation?.operationId !== id) continue;
      const parameters = [...(item.parameters ?? []), ...(operation.parameters ?? [])];
      const [[type, body] = []] = Object.entries(bodiesOf(operation));
      const { 200: ok, 201: created = ok, 202: accepted = created } = operation.responses;
      const success = resolveSchema(spec, accepted);
      return {
        method,
        path,
        summary: operation.summary ?? id,
        description: operation.description ?? '',
        scope: operation['x-scope'],
        inputs: [
          ...parameters.map(
            (parameter) => ({ required: false, ...resolveSchema(spec, parameter) }) as unknown as Input,
          ),
          ...fieldsOf(resolveSchema(spec, body?.schema)),
        ].map((input) => described(spec, input)),
        isForm: type === 'multipart/form-data',
        answersFile: !Object.hasOwn((success.content as object | undefined) ?? {}, 'application/json'),
      };
    }
  }
  throw new Error(`openapi.yaml has no operation ${id}`);
}

/** The same with the schemas that it refers to. */
function described(spec: Spec, input: Input): Input {
  const { items, ...schema } = resolveSchema(spec, input.schema);
  const description = input.description || String(schema.description ?? '');
  return {
    ...input,
    description,
    schema: items ? { ...schema, items: resolveSchema(spec, items as SpecSchema) } : schema,
  };
}

function fieldsOf({ properties = {}, required = [] }: SpecSchema): Input[] {
  return Object.entries(properties as Record<string, SpecSchema>).map(([name, schema]) => ({
    name,
    in: 'body',
    required: (required as string[]).includes(name),
    description: String(schema.description ?? ''),
    schema,
  }));
}
