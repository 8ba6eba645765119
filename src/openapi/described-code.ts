/** A code of an error, or of a failed attempt to deliver an event. */
export interface DescribedCode {
  /** `http_<status>` stands for every status that is not 2xx. */
  readonly code: string;
  /** The HTTP status that it is answered with; `null` for why an attempt failed, which is recorded and not answered. */
  readonly status: number | null;
  /** `error.type` of an answer. */
  readonly type: string | null;
  /** What it means and, where the error's message does not say that, what to do. */
  readonly meaning: string;
}

/** The code by which one is described: `http_<status>` for `http_503`, and any other for itself. */
export function describedName(code: string): string {
  return code.replace(/^http_\d{3}$/, 'http_<status>');
}
