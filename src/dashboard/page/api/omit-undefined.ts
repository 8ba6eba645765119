type Defined<T> = { [Name in keyof T]?: NonNullable<T[Name]> };

/** Without what is not set. What the address says is for the API to judge. */
export function omitUndefined<T extends object>(query: T): Defined<T> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Defined<T>;
}
