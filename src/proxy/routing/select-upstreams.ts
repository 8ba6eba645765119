import { GatewayError } from '../../errors.ts';

/** The part of an upstream that its choice depends on. */
export interface Candidate {
  readonly weight: number;
  readonly priority: number;
  serves(model: string): boolean;
}

/** A random order in which an upstream's chance to come first is its share of the weights. */
function shuffled<U extends Candidate>(upstreams: readonly U[], random: () => number): U[] {
  const rest = [...upstreams];
  const order: U[] = [];
  while (rest.length > 0) {
    let point = random() * rest.reduce((sum, { weight }) => sum + weight, 0);
    const at = rest.findIndex(({ weight }) => {
      point -= weight;
      return point < 0;
    });
    order.push(...rest.splice(Math.max(at, 0), 1));
  }
  return order;
}

/**
 * The upstreams that serve a model, in the order they are asked: by priority, then at random by weight. Pure.
 * @param model `undefined` when the call names none: then all upstreams qualify
 * @param random like `Math.random`
 */
export function orderUpstreams<U extends Candidate>(
  upstreams: readonly U[],
  model: string | undefined,
  random: () => number,
): U[] {
  const serving = model === undefined ? upstreams : upstreams.filter((upstream) => upstream.serves(model));
  if (serving.length < 2) return [...serving];
  const byPriority = new Map<number, U[]>();
  for (const upstream of serving) {
    byPriority.set(upstream.priority, [...(byPriority.get(upstream.priority) ?? []), upstream]);
  }
  return [...byPriority.keys()]
    .sort((a, b) => a - b)
    .flatMap((priority) => shuffled(byPriority.get(priority) ?? [], random));
}

/**
 * The upstreams that a call of a model goes to, in turn; at least one.
 * @throws GatewayError `model_not_found`
 */
export function selectUpstreams<U extends Candidate>(
  upstreams: readonly U[],
  model: string | undefined,
): readonly [U, ...U[]] {
  const [first, ...others] = orderUpstreams(upstreams, model, Math.random);
  if (first) return [first, ...others];
  const message =
    model === undefined
      ? 'No model provider is configured; tell the operator of this gateway'
      : `The model '${model}' does not exist; GET /v1/models lists those that do`;
  throw new GatewayError('model_not_found', message, { param: 'model' });
}
