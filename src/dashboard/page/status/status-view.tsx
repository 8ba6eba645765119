import { Heading } from '../shell/heading.tsx';
import { BacklogCard } from './backlog-card.tsx';
import { ProcessesCard } from './processes-card.tsx';
import { UpstreamsCard } from './upstreams-card.tsx';

/** How the gateway is doing at this moment, all its processes together. */
export function StatusView() {
  return (
    <>
      <Heading title="Status" />
      <BacklogCard />
      <UpstreamsCard />
      <ProcessesCard />
    </>
  );
}
