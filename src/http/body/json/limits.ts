/** How deep JSON may nest. Enough for any real body; far below where BSON (200) and recursion give up. */
export const maxDepth = 100;
/** Keys, strings, objects, arrays and literals that a body may have. */
export const maxParts = 1_000_000;
/** Numbers: a body of the largest size may be all tokens. */
export const maxNumbers = 8_000_000;

/** About what V8 takes for each, in bytes. */
export const weights = { container: 64, key: 24, string: 24, fraction: 32, scalar: 8 } as const;
/** So many bytes a tree may take, however small the body is. */
export const smallTree = 4 * 1024 * 1024;
/** And so many, however large it is, for a tree is validated in one go. */
export const largestTree = 8 * 1024 * 1024;

/**
 * A string of more bytes is `…` in what is kept. Without that, 2,048 texts to embed (900 KB) take 1.25 times the CPU of a whole
 * call (1.22 to 1.35 in five rounds), and a text of 32 MiB holds the event loop for 162 ms instead of 7, in 91 MB instead of 14.
 */
export const keptString = 64;
/** So many keys may stand in an object whose keys are acted on. */
export const maxKeys = 1_000;
/** Whole numbers at the start of an array that are kept one by one; more of them, such as tokens, are only counted. */
export const keptIntegers = 64;
