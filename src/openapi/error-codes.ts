import { errorType } from '../errors.ts';
import type { DescribedCode } from './described-code.ts';
import type { Spec } from './spec.ts';

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
