declare module 'js-yaml' {
  export const CORE_SCHEMA: unique symbol;
  export function load(text: string, options: { schema: typeof CORE_SCHEMA }): unknown;
  export function loadAll(text: string): unknown[];
}
