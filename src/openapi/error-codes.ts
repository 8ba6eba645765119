import { errorType } from '../errors.ts';
import type { Spec } from './spec.ts';

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

/** Every code that openapi.yaml describes. */
export function describeCodes({ components: { schemas } }: Spec): DescribedCode[] {
  const textsOf = (schema: string) =>
    Object.entries((schemas[schema]?.['x-enumDescriptions'] ?? {}) as Readonly<Record<string, string>>);
  const answered = textsOf('ErrorCode').map(([code, text]) => {
    const [status = '', ...meaning] = text.split('. ');
    return { code, status: Number(status), type: errorType(Number(status), code), meaning: meaning.join('. ') };
  });
  const recorded = [
    ...textsOf('KnownDeliveryErrorCode'),
    ['http_<status>', String(schemas.DeliveryStatusCode?.description)],
  ];
  return [...answered, ...recorded.map(([code = '', meaning = '']) => ({ code, status: null, type: null, meaning }))];
}
