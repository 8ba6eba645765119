import { href } from '../routing/route.ts';
import { Tag } from './badge.tsx';

interface Props {
  readonly to: readonly string[];
  readonly name: string;
  /** Whether it is only a test. */
  readonly test: boolean;
  readonly id: string;
}

/** The name and id of what a row is about; a click anywhere in the row opens it. */
export function RowName({ to, name, test, id }: Props) {
  return (
    <>
      <a class="row-link" href={href(to)}>
        {name}
      </a>
      {test && <Tag>test</Tag>}
      <code class="under">{id}</code>
    </>
  );
}
