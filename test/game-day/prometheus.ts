/** The part of PromQL that deploy/prometheus-rules.yaml uses, over scrapes in memory. */

type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

/** What was scraped at one moment, of every process. */
export interface Scrape {
  /** Seconds. */
  readonly at: number;
  readonly samples: readonly Sample[];
}

type Vector = readonly Sample[];
type Value = number | Vector;
type Evaluate = (scrapes: readonly Scrape[]) => Value;

/** The samples of Prometheus's text format. The name of a metric is its label `__name__`, as in Prometheus. */
export function parseScrape(text: string, instance: string): Sample[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const [, name = '', list = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    const pairs = [...list.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = '', text_ = '']) => [label, text_]);
    return { labels: { ...Object.fromEntries(pairs), __name__: name, instance }, value: Number(value) };
  });
}

const without = (labels: Labels, name: string): Labels =>
  Object.fromEntries(Object.entries(labels).filter(([label]) => label !== name));
const keyOf = (labels: Labels): string =>
  JSON.stringify(Object.entries(without(labels, '__name__')).sort(([a], [b]) => (a < b ? -1 : 1)));
const vectorOf = (value: Value): Vector => (typeof value === 'number' ? [{ labels: {}, value }] : value);

type Matches = (labels: Labels) => boolean;

/** The increase of a counter for each second, from its first sample within the window to its last. */
function rateOf(scrapes: readonly Scrape[], matches: Matches, window: number): Vector {
  const now = scrapes.at(-1)?.at ?? 0;
  const series = new Map<string, { readonly at: number; readonly sample: Sample }[]>();
  for (const { at, samples } of scrapes.filter((scrape) => scrape.at > now - window)) {
    for (const sample of samples.filter(({ labels }) => matches(labels))) {
      const key = JSON.stringify(sample.labels);
      series.set(key, [...(series.get(key) ?? []), { at, sample }]);
    }
  }
  return [...series.values()].flatMap((points) => {
    const [first, last] = [points[0], points.at(-1)];
    if (!first || !last || first === last) return [];
    const value = (last.sample.value - first.sample.value) / (last.at - first.at);
    return [{ labels: without(last.sample.labels, '__name__'), value }];
  });
}

const aggregations: Readonly<Record<string, (values: readonly number[]) => number>> = {
  sum: (values) => values.reduce((total, value) => total + value, 0),
  max: (values) => Math.max(...values),
  min: (values) => Math.min(...values),
  count: (values) => values.length,
};

function aggregate(name: string, by: readonly string[], vector: Vector): Vector {
  const groups = new Map<string, { readonly labels: Labels; readonly values: number[] }>();
  for (const { labels, value } of vector) {
    const kept = Object.fromEntries(by.map((label) => [label, labels[label] ?? '']));
    const group = groups.get(keyOf(kept)) ?? { labels: kept, values: [] };
    group.values.push(value);
    groups.set(keyOf(kept), group);
  }
  return [...groups.values()].map(({ labels, values }) => ({
    labels,
    value: aggregations[name]?.(values) ?? Number.NaN,
  }));
}

const comparisons: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '==': (a, b) => a === b,
  '>=': (a, b) => a >= b,
  '>': (a, b) => a > b,
  '<': (a, b) => a < b,
};

/** Joins samples with the same labels. */
function combine(operator: string, left: Vector, right: Value): Vector {
  return left.flatMap((sample) => {
    const other =
      typeof right === 'number' ? right : right.find(({ labels }) => keyOf(labels) === keyOf(sample.labels))?.value;
    if (other === undefined) return [];
    const compare = comparisons[operator];
    if (compare) return compare(sample.value, other) ? [sample] : [];
    const value = sample.value / other;
    return Number.isNaN(value) ? [] : [{ labels: without(sample.labels, '__name__'), value }];
  });
}

function combineSets(operator: string, left: Vector, right: Vector): Vector {
  const inRight = new Set(right.map(({ labels }) => keyOf(labels)));
  if (operator === 'and') return left.filter(({ labels }) => inRight.has(keyOf(labels)));
  if (operator === 'unless') return left.filter(({ labels }) => !inRight.has(keyOf(labels)));
  const inLeft = new Set(left.map(({ labels }) => keyOf(labels)));
  return [...left, ...right.filter(({ labels }) => !inLeft.has(keyOf(labels)))];
}

/** From those that bind least to those that bind most. */
const levels = [['or'], ['and', 'unless'], ['==', '>=', '>', '<'], ['/']] as const;
const token = /\s*("(?:[^"\\]|\\.)*"|\d+(?:\.\d+)?[smh]?|[A-Za-z_]\w*|[=!]~|==|!=|>=|[(){}[\],/<>=])/gy;

class Parser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(expression: string) {
    this.#tokens = [...expression.matchAll(token)].map(([, text = '']) => text);
    const length = this.#tokens.join('').length;
    if (length !== expression.replace(/\s+(?=(?:[^"]*"[^"]*")*[^"]*$)/g, '').length)
      throw new Error(`cannot read ${expression}`);
  }

  parse(): Evaluate {
    const evaluate = this.#level(0);
    if (this.#at < this.#tokens.length) throw new Error(`unexpected ${this.#tokens[this.#at]}`);
    return evaluate;
  }

  #take(expected?: string): string {
    const next = this.#tokens[this.#at];
    if (next === undefined || (expected !== undefined && next !== expected))
      throw new Error(`${expected} expected, not ${next}`);
    this.#at += 1;
    return next;
  }

  #accept(text: string): boolean {
    if (this.#tokens[this.#at] !== text) return false;
    this.#at += 1;
    return true;
  }

  #level(depth: number): Evaluate {
    const operators = levels[depth] as readonly string[] | undefined;
    if (!operators) return this.#operand();
    let left = this.#level(depth + 1);
    while (operators.includes(this.#tokens[this.#at] ?? '')) {
      const operator = this.#take();
      const [before, after] = [left, this.#level(depth + 1)];
      const isSet = depth < 2;
      left = (scrapes) =>
        isSet
          ? combineSets(operator, vectorOf(before(scrapes)), vectorOf(after(scrapes)))
          : combine(operator, vectorOf(before(scrapes)), after(scrapes));
    }
    return left;
  }

  #operand(): Evaluate {
    if (this.#accept('(')) return this.#closed(this.#level(0));
    const next = this.#tokens[this.#at] ?? '';
    if (/^\d/.test(next)) {
      this.#at += 1;
      return () => Number(next);
    }
    if (next in aggregations) return this.#aggregation();
    if (next === 'rate') return this.#rate();
    if (next === 'absent') {
      this.#at += 1;
      this.#take('(');
      const inner = this.#closed(this.#level(0));
      return (scrapes) => (vectorOf(inner(scrapes)).length === 0 ? [{ labels: {}, value: 1 }] : []);
    }
    const matches = this.#selector();
    return (scrapes) => scrapes.at(-1)?.samples.filter(({ labels }) => matches(labels)) ?? [];
  }

  #closed(inner: Evaluate): Evaluate {
    this.#take(')');
    return inner;
  }

  #aggregation(): Evaluate {
    const name = this.#take();
    const by: string[] = [];
    if (this.#accept('by')) {
      this.#take('(');
      while (!this.#accept(')')) if (!this.#accept(',')) by.push(this.#take());
    }
    this.#take('(');
    const inner = this.#closed(this.#level(0));
    return (scrapes) => aggregate(name, by, vectorOf(inner(scrapes)));
  }

  #rate(): Evaluate {
    this.#take('rate');
    this.#take('(');
    const matches = this.#selector();
    this.#take('[');
    const window = 60 * Number.parseInt(this.#take(), 10);
    this.#take(']');
    return this.#closed((scrapes) => rateOf(scrapes, matches, window));
  }

  #selector(): Matches {
    const conditions: Matches[] = [];
    if (this.#tokens[this.#at] !== '{') {
      const name = this.#take();
      conditions.push((labels) => labels.__name__ === name);
    }
    if (this.#accept('{')) {
      while (!this.#accept('}')) {
        if (this.#accept(',')) continue;
        const [label, operator, quoted] = [this.#take(), this.#take(), this.#take()];
        const wanted = JSON.parse(quoted) as string;
        const pattern = new RegExp(`^(?:${wanted})$`);
        conditions.push(({ [label]: value = '' }) => (operator === '=~' ? pattern.test(value) : value === wanted));
      }
    }
    return (labels) => conditions.every((condition) => condition(labels));
  }
}

/** Reads an expression. What it gives for scrapes is empty where the alert does not fire. */
export function parseExpression(expression: string): (scrapes: readonly Scrape[]) => Vector {
  const evaluate = new Parser(expression.trim()).parse();
  return (scrapes) => vectorOf(evaluate(scrapes));
}
