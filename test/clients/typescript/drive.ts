/** Makes every call of a plan with a client that has been generated for TypeScript, and prints what each has come to. */
import { json } from 'node:stream/consumers';
import type { Outcome, Plan } from '../generated-client.ts';
import { adapters } from './adapters.ts';

const [, , adapter = '', folder = ''] = process.argv;
const plan = (await json(process.stdin)) as Plan;
const make = await adapters[adapter as keyof typeof adapters](folder, plan);
for (const call of plan.calls) {
  const outcome: Omit<Outcome, 'operationId'> = await make(call).then(
    (parsed) => ({ parsed }),
    (error: unknown) => ({ error: String(error) }),
  );
  console.log(JSON.stringify({ operationId: call.operationId, ...outcome }));
}
