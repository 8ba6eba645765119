import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

export type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
/** Ajv for the schemas of OpenAPI 3.1. The build replaces this module with a bundle of both packages (`src/bundle.mjs`). */
export { Ajv2020, addFormats };
