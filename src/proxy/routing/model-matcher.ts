/** Whether a model matches one of some ids and patterns. */
export type MatchesModel = (model: string) => boolean;

/**
 * Searches every piece between two `*` once, after the piece before: the first match leaves the most text to the pieces that
 * follow, so no other match has to be tried.
 */
function patternMatcher(pattern: string): MatchesModel {
  const [start = '', ...pieces] = pattern.split('*');
  const end = pieces.pop() ?? '';
  return (model) => {
    const limit = model.length - end.length;
    if (limit < start.length || !model.startsWith(start) || !model.endsWith(end)) return false;
    let at = start.length;
    for (const piece of pieces) {
      const index = model.indexOf(piece, at);
      if (index === -1 || index + piece.length > limit) return false;
      at = index + piece.length;
    }
    return true;
  };
}

/** Creates a matcher for ids, and for patterns where `*` matches any text. Its cost does not grow with the number of `*`, as a regular expression's would. */
export function modelMatcher(models: readonly string[]): MatchesModel {
  const ids = new Set(models.filter((model) => !model.includes('*')));
  const patterns = models.filter((model) => model.includes('*')).map(patternMatcher);
  return (model) => ids.has(model) || patterns.some((matches) => matches(model));
}
