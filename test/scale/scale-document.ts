import { capacitySection } from './capacity-section.ts';
import { scaleSection, soakSection } from './measured-section.ts';
import { outageSection } from './outage-day.ts';
import { shardingSection } from './shard-keys.ts';

/** The generated parts of docs/scale.md, by the name in their markers. */
export const scaleParts: Readonly<Record<string, () => string>> = {
  'shard keys': shardingSection,
  outages: outageSection,
  measurements: scaleSection,
  soak: soakSection,
  capacity: () => capacitySection(),
};
