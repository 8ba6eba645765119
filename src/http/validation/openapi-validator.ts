import { middleware } from 'express-openapi-validator';

/** One step of the validator, which takes what Express gives to a middleware. */
export type Step = (req: object, res: object, next: (error?: unknown) => void) => void;

/**
 * The steps in which the validator checks a request against a document. The build replaces this module with a bundle that holds the
 * package, without the parts that these options leave unused (`src/bundle.mjs`).
 */
export function createSteps(apiSpec: object): readonly Step[] {
  return middleware({
    // biome-ignore lint/suspicious/noExplicitAny: the validator's own type of a document knows less than 3.1
    apiSpec: apiSpec as any,
    useRequestUrl: true,
    validateApiSpec: false,
    validateSecurity: false,
    validateResponses: false,
    fileUploader: false,
  }) as unknown as readonly Step[];
}
