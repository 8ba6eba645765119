import { type CheckContext, problemsOr, type Result, warning } from '../check.ts';

/** What is set, and is probably a mistake. What a gateway refuses is found before any check. */
export async function checkConfiguration({ settings }: CheckContext): Promise<readonly Result[]> {
  const problems = settings.warnings.map((message) => warning(message, 'correct it, unless it is meant so'));
  return problemsOr(problems, 'start refuses none of the variables that are set');
}
