import type { Delivery } from '../api/types.ts';
import { Badge } from '../elements/badge.tsx';
import { statusOf } from './words.ts';

export function DeliveryBadge({ delivery }: { delivery: Delivery }) {
  const { shape, words, live } = statusOf(delivery);
  return (
    <Badge shape={shape} live={live}>
      {words}
    </Badge>
  );
}
