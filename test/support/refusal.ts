import { expect } from 'chai';
import OpenAI from 'openai';

/** The error with which OpenAI's client rejects a call that a gateway refuses. */
export async function refusalOf(call: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).to.be.instanceOf(OpenAI.APIError);
  return error as InstanceType<typeof OpenAI.APIError>;
}
