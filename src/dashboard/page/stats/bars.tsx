import { useState } from 'preact/hooks';
import { counted } from '../format/number.ts';
import { localTime } from '../format/time.ts';
import { type Bin, niceTop } from './bins.ts';
import { useWidth } from './use-width.ts';

const height = 190;
const left = 34;
const bottom = 22;

const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'short' });
const hourName = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

/** A label where a day begins, or every few hours of a single day. */
function labelOf(bin: Bin, i: number, bins: readonly Bin[], narrow: boolean): string | null {
  const start = new Date(bin.start);
  if (bins.length <= 24) return i % 6 === 0 ? hourName.format(start) : null;
  const before = bins[i - 1];
  if (!before || new Date(before.start).getDate() === start.getDate()) return null;
  return narrow ? weekday.format(start) : `${weekday.format(start)} ${start.getDate()}`;
}

function Readout({ bin }: { bin: Bin | undefined }) {
  return (
    <p class="readout numbers" aria-hidden="true">
      {bin ? (
        <>
          <b>
            {localTime(bin.start).replace(/:00$/, '')} – {hourName.format(new Date(bin.end))}
          </b>
          {` · ${counted(bin.succeeded, 'success', 'successes')} · ${counted(bin.failed, 'failure')}`}
        </>
      ) : (
        <>
          <span class="key key-good" /> succeeded <span class="key key-bad" /> failed
        </>
      )}
    </p>
  );
}

/** Attempts over time, those that failed on top of those that succeeded. A table says the same to readers who cannot see it. */
export function Bars({ bins, label }: { bins: readonly Bin[]; label: string }) {
  const [shown, setShown] = useState<number>();
  const [frame, width] = useWidth<HTMLDivElement>(720);
  const top = niceTop(Math.max(0, ...bins.map(({ succeeded, failed }) => succeeded + failed)));
  const plot = height - bottom - 8;
  const y = (n: number) => height - bottom - (n / top) * plot;
  const step = (width - left) / Math.max(1, bins.length);
  const bar = Math.max(2, step * 0.7);
  return (
    <>
      <Readout bin={shown === undefined ? undefined : bins[shown]} />
      <div ref={frame}>
        <svg
          class="bars"
          width={width}
          height={height}
          role="img"
          aria-label={label}
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            const at = Math.floor((event.clientX - box.left - left) / step);
            setShown(at >= 0 && at < bins.length ? at : undefined);
          }}
          onPointerLeave={() => setShown(undefined)}
        >
          {[0, top / 2, top].map((n) => (
            <g key={n}>
              <line class="grid" x1={left} x2={width} y1={y(n)} y2={y(n)} />
              <text class="axis" x={left - 8} y={y(n) + 4} text-anchor="end">
                {n}
              </text>
            </g>
          ))}
          {bins.map((bin, i) => {
            const { start, succeeded, failed } = bin;
            const x = left + i * step + (step - bar) / 2;
            const name = labelOf(bin, i, bins, width < 560);
            return (
              <g key={start} class={shown === i ? 'shown' : undefined}>
                <rect class="bar-hover" x={left + i * step} y={8} width={step} height={plot} />
                {succeeded > 0 && (
                  <rect class="bar-good" x={x} y={y(succeeded)} width={bar} height={y(0) - y(succeeded)} rx={1.5} />
                )}
                {failed > 0 && (
                  <rect
                    class="bar-bad"
                    x={x}
                    y={y(succeeded + failed)}
                    width={bar}
                    height={y(succeeded) - y(succeeded + failed)}
                    rx={1.5}
                  />
                )}
                {name && (
                  <text class="axis" x={left + i * step} y={height - 6}>
                    {name}
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
