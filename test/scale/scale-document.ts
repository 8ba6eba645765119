import { capacitySection } from './capacity-section.ts';
import { scaleSection, soakSection } from './measured-section.ts';
import { outageSection } from './outage-day.ts';
import { shardingSection } from './shard-keys.ts';

/** The generated parts of docs/scale.md, by the name in their markers. */
const generatedParts: Readonly<Record<string, () => string>> = {
  'shard keys': shardingSection,
  outages: outageSection,
  measurements: scaleSection,
  soak: soakSection,
  capacity: () => capacitySection(),
};

const markers = (name: string) => [`<!-- ${name}: npm run docs:generate -->`, `<!-- end of ${name} -->`] as const;

/** The document with its generated parts made anew. @throws when the markers of a part are missing */
export function withGeneratedParts(text: string): string {
  return Object.entries(generatedParts).reduce((before, [name, part]) => {
    const [opening, closing] = markers(name);
    const [start, end] = [before.indexOf(opening), before.indexOf(closing)];
    if (start < 0 || end < start) throw new Error(`docs/scale.md has no ${opening} … ${closing}`);
    return `${before.slice(0, start)}${opening}\n\n${part()}\n\n${before.slice(end)}`;
  }, text);
}
