import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { useWidth } from './use-width.ts';

const height = 190;
const bottom = 22;

/** Where a bar stands, and how high a number is in the chart. CSS pixels. */
export interface BarPlace {
  readonly x: number;
  readonly width: number;
  readonly y: (value: number) => number;
}

interface Props {
  /** One for each bar. */
  readonly keys: readonly string[];
  /** The number at the top of the axis. */
  readonly top: number;
  /** CSS pixels. */
  readonly axisWidth: number;
  /** What the chart shows, for readers who cannot see it. */
  readonly label: string;
  readonly axisText: (value: number) => string;
  /** What stands below a bar, in a chart of this width. */
  readonly labelOf: (index: number, plotWidth: number) => string | null;
  /** What stands above the chart; of the bar under the pointer if there is one. */
  readonly readout: (index: number | undefined) => ComponentChildren;
  /** The parts of one bar. */
  readonly children: (index: number, place: BarPlace) => ComponentChildren;
}

/** Bars side by side, over an axis. */
export function BarChart({ keys, top, axisWidth, label, axisText, labelOf, readout, children }: Props) {
  const [shown, setShown] = useState<number>();
  const [frame, width] = useWidth<HTMLDivElement>(720);
  const plotHeight = height - bottom - 8;
  const plotWidth = width - axisWidth;
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
              <g key={key} class={shown === i ? 'shown' : undefined}>
                <rect class="bar-hover" x={left} y={8} width={step} height={plotHeight} />
                {children(i, { x: left + (step - bar) / 2, width: bar, y })}
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
