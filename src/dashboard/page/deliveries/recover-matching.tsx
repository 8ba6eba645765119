import type { DeliveryFilter, RecoverBody, WebhookSummary } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/inputs/button.tsx';
import { Failure } from '../elements/states.tsx';
import { counted } from '../format/number.ts';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';

interface Props {
  readonly filter: DeliveryFilter;
  readonly state: 'failed' | 'canceled';
  readonly webhooks: readonly WebhookSummary[];
  readonly onStarted: () => void;
}

/** Where the filter says no time: deliveries are kept for 30 days unless the operator says otherwise. Milliseconds. */
const longest = 29 * 86_400_000;

function disabledReason({ type, event_id }: DeliveryFilter, targets: readonly WebhookSummary[]): string | false {
  if (type || event_id) return 'A recovery sends events of every type: clear the filters by type and event';
  return targets.length === 0 && 'No webhook that is active matches: resume it first';
}

/** Recovers everything that a filter finds: at the gateway's rate, whether this page stays open or not. */
export function RecoverMatching({ filter, state, webhooks, onStarted }: Props) {
  const api = useApi();
  const announce = useAnnounce();
  const { webhook_id, since, until } = filter;
  const targets = webhooks.filter(({ id, active }) => active && (!webhook_id || id === webhook_id));
  const recover = useAction(async () => {
    const from = since ?? new Date(Date.now() - longest).toISOString();
    let total = 0;
    for (const { id } of targets) {
      const body = { since: from, ...(until && { until }), states: [state] } as RecoverBody;
      total += (await api.recoverWebhook(id, body)).found;
    }
    announce(`${counted(total, 'delivery is', 'deliveries are')} being sent again`);
    onStarted();
  });
  return (
    <>
      <Button
        busy={recover.running}
        disabledReason={disabledReason(filter, targets)}
        onClick={() => void recover.run()}
      >
        Send all {state} again
      </Button>
      {recover.error && <Failure error={recover.error} />}
    </>
  );
}
