import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

const height = 190;
const bottom = 22;

/** What one part of each bar shows. */
interface BarSeries {
  readonly name: string;
  /** The name of a colour: `good-fill`. */
  readonly colour: string;
  /** One for each bar. */
  readonly values: readonly number[];
}

interface BarChartProps {
  /** One for each bar. */
  readonly keys: readonly string[];
  /** From the foot of each bar to its top. */
  readonly series: readonly BarSeries[];
  /** The number at the top of the axis. @default niceTop */
  readonly topOf?: (highest: number) => number;
  /** The radius of a bar's corners. CSS pixels, as the next. @default 0 */
  readonly rx?: number;
  readonly axisWidth: number;
  /** What the chart shows, for readers who cannot see it. */
  readonly label: string;
  readonly axisText: (value: number) => string;
  /** What stands below a bar, in a chart of this width. */
  readonly labelOf: (index: number, plotWidth: number) => string | null;
  /** What stands above the chart; of the bar under the pointer if there is one. */
  readonly readout: (index: number | undefined) => ComponentChildren;
}

/** Bars side by side, over an axis. */
export function BarChart(props: BarChartProps) {
  const { keys, series, topOf = niceTop, rx, axisWidth, label, axisText, labelOf, readout } = props;
  const [shown, setShown] = useState<number>();
  const [frame, width] = useWidth<HTMLDivElement>(720);
  const plotHeight = height - bottom - 8;
  const plotWidth = width - axisWidth;
  const top = topOf(Math.max(0, ...keys.map((_, i) => sumAt(i, series))));
  const y = (value: number) => height - bottom - (value / top) * plotHeight;
  const step = plotWidth / Math.max(1, keys.length);
  const bar = Math.max(2, step * 0.7);
  return (
    <>
      {readout(shown)}
      <div ref={frame}>
        <svg
          class="bars"
          width={width}
          height={height}
          role="img"
          aria-label={label}
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            const at = Math.floor((event.clientX - box.left - axisWidth) / step);
            setShown(at >= 0 && at < keys.length ? at : undefined);
          }}
          onPointerLeave={() => setShown(undefined)}
        >
          {[0, top / 2, top].map((value) => (
            <g key={value}>
              <line class="grid" x1={axisWidth} x2={width} y1={y(value)} y2={y(value)} />
              <text class="axis" x={axisWidth - 8} y={y(value) + 4} text-anchor="end">
                {axisText(value)}
              </text>
            </g>
          ))}
          {keys.map((key, i) => {
            const left = axisWidth + i * step;
            const text = labelOf(i, plotWidth);
            return (
              <g key={key}>
                {shown === i && <rect fill="var(--hover)" x={left} y={8} width={step} height={plotHeight} />}
                {series.map(({ name, colour, values }, part) => {
                  const head = y(sumAt(i, series.slice(0, part + 1)));
                  const place = { x: left + (step - bar) / 2, y: head, width: bar, height: y(0) - y(values[i] ?? 0) };
                  return values[i] ? <rect key={name} fill={`var(--${colour})`} {...place} rx={rx} /> : null;
                })}
                {text && (
                  <text class="axis" x={left} y={height - 6}>
                    {text}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      </div>
    </>
  );
}

/** Says which part of a bar has this colour. */
export function ColourKey({ colour }: { colour: string }) {
  return <span class="key" style={{ background: `var(--${colour})` }} />;
}

/** How high a bar is. */
function sumAt(i: number, series: readonly BarSeries[]): number {
  return series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0);
}

/** A round number at or above the highest bar, so that the axis is easy to read. */
export function niceTop(highest: number): number {
  if (highest <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(highest));
  const steps = [1, 2, 4, 5, 8, 10];
  return (steps.find((step) => step * power >= highest) ?? 10) * power;
}

interface AsTableProps {
  readonly head: readonly string[];
  readonly rows: readonly {
    readonly key: string;
    readonly name: string;
    readonly values: readonly (string | number)[];
  }[];
}

/** The numbers of a chart, for readers who cannot see it. */
export function AsTable({ head, rows }: AsTableProps) {
  return (
    <details class="as-table">
      <summary>The same as a table</summary>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div class="scroll-x" tabIndex={0}>
        <table class="small numbers">
          <thead>
            <tr>
              {head.map((text) => (
                <th key={text} scope="col">
                  {text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ key, name, values }) => (
              <tr key={key}>
                <th scope="row">{name}</th>
                {values.map((value, i) => (
                  <td key={head[i + 1]}>{value}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

/** How wide an element is, in CSS pixels, as it changes. */
function useWidth<E extends Element>(first: number): [ref: RefObject<E | null>, width: number] {
  const ref = useRef<E>(null);
  const [width, setWidth] = useState(first);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => {
      if (entry) setWidth(Math.round(entry.contentRect.width));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
