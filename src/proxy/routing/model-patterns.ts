/** Whether a model fits some ids and patterns. */
export type MatchesModel = (model: string) => boolean;

/**
 * Every piece between two `*` is looked for once, behind the piece before: the first place that fits leaves most to those
 * that follow, so that no other has to be tried.
 */
function patternMatcher(pattern: string): MatchesModel {
  const [start = '', ...pieces] = pattern.split('*');
  const end = pieces.pop() ?? '';
  return (model) => {
    const limit = model.length - end.length;
    if (limit < start.length || !model.startsWith(start) || !model.endsWith(end)) return false;
    let at = start.length;
    for (const piece of pieces) {
      const found = model.indexOf(piece, at);
      if (found === -1 || found + piece.length > limit) return false;
      at = found + piece.length;
    }
    return true;
  };
}

/** Makes what matches ids, and patterns where `*` stands for any text. What it takes does not grow with the `*` of a pattern. */
export function modelMatcher(models: readonly string[]): MatchesModel {
  const ids = new Set(models.filter((model) => !model.includes('*')));
  const patterns = models.filter((model) => model.includes('*')).map(patternMatcher);
  return (model) => ids.has(model) || patterns.some((matches) => matches(model));
}
