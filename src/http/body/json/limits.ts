/** How deep JSON may nest: more than any real body needs, and far less than BSON (200) and recursion allow. */
export const maxDepth = 100;
/** Keys, strings, objects, arrays and literals that a body may have. */
export const maxParts = 1_000_000;
/** Numbers that a body may have: one of the largest size may consist of tokens. */
export const maxNumbers = 8_000_000;

/** About how many bytes V8 takes for each. */
export const weights = { container: 64, key: 24, string: 24, fraction: 32, scalar: 8 } as const;
/** A tree may always take this many bytes, however small the body is. */
export const smallTree = 4 * 1024 * 1024;
/** A tree may never take more bytes, however large the body is, because it is validated in one turn of the event loop. */
export const largestTree = 8 * 1024 * 1024;

/**
 * A longer string is kept as `…`. Bytes. Without this limit, 2,048 texts to embed (900 KB) take 1.25 times the CPU of a whole
 * call (1.22 to 1.35 in five rounds), and a text of 32 MiB holds the event loop for 162 ms instead of 7, in 91 MB instead of 14.
 */
export const keptString = 64;
/** How many keys an object with described properties may have. */
export const maxKeys = 1_000;
/** How many whole numbers at the start of an array are kept. Further ones, such as tokens, are only counted. */
export const keptIntegers = 64;
