import type { ComponentChildren } from 'preact';

interface Props {
  /** Whether the filters say when; the last seven days otherwise. */
  readonly isRange?: boolean;
  /** What has failed, in the plural. */
  readonly what: string;
  /** Where all of them are, if there are more than these. */
  readonly more: string | undefined;
  readonly children: ComponentChildren;
}

/** The latest that failed, above everything else. */
export function FailedCard({ isRange, what, more, children }: Props) {
  return (
    <section class="card card-bad" aria-label={`Failed ${what}`}>
      <div class="card-head">
        <h2>{isRange ? 'Failed' : 'Failed in the last 7 days'}</h2>
        {more !== undefined && <a href={more}>See all failed</a>}
      </div>
      {children}
    </section>
  );
}
