import { rows as deliveries } from './deliveries.ts';
import { rows as events } from './events.ts';
import { rows as gateway } from './gateway.ts';
import { describeStalePrimary } from './harness.ts';
import { rows as services } from './services.ts';

describeStalePrimary([...services, ...events, ...deliveries, ...gateway]);
