import { randomUUID } from 'node:crypto';
import { demoModel } from './model.ts';

/** The answer to a moderation request: the demo flags nothing. */
export function moderations({ input }: { readonly input?: unknown }): object {
  const inputs = Array.isArray(input) ? input : [input];
  const result = { flagged: false, categories: {}, category_scores: {}, category_applied_input_types: {} };
  return { id: `modr-${randomUUID()}`, model: demoModel.id, results: inputs.map(() => result) };
}
