/** The one model of the demo upstream. Its name says what it does. */
export const demoModel = { id: 'demo-echo', object: 'model', created: 1_700_000_000, owned_by: 'demo' } as const;

const statusOf = {
  invalid_value: 400,
  invalid_json: 400,
  invalid_form: 400,
  not_found: 404,
  model_not_found: 404,
} as const;

/** An error in OpenAI's shape, as an upstream answers it. */
export class DemoError extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;

  constructor(code: keyof typeof statusOf, message: string, param: string | null = null) {
    super(message);
    this.status = statusOf[code];
    this.code = code;
    this.param = param;
  }

  toBody(): object {
    return { error: { message: this.message, type: 'invalid_request_error', param: this.param, code: this.code } };
  }
}

/** @throws DemoError 404 for any model but the one there is */
export function checkModel(model: unknown): void {
  if (model === demoModel.id) return;
  const message = `The model '${String(model)}' does not exist here: this demo upstream has only '${demoModel.id}'`;
  throw new DemoError('model_not_found', message, 'model');
}
