type Defined<T> = { [Name in keyof T]?: NonNullable<T[Name]> };

/** Removes fields that are not set. The API checks the others. */
export function omitUndefined<T extends object>(query: T): Defined<T> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Defined<T>;
}
