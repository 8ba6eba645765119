import type { DeliveryDetails } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { AgainIcon } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Failure } from '../elements/states.tsx';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';
import { outcomeWords } from './words.ts';

interface Props {
  readonly delivery: DeliveryDetails;
  readonly onSent: (delivery: DeliveryDetails) => void;
}

/** Why a delivery cannot be sent again at present. */
function disabledReason({ in_flight, url }: DeliveryDetails): string | undefined {
  if (url === null) return 'Its webhook has been deleted';
  return in_flight ? 'An attempt is under way: wait for its end' : undefined;
}

/** Makes one more attempt now and shows its result. */
export function useResend({ delivery, onSent }: Props) {
  const api = useApi();
  const announce = useAnnounce();
  const resend = useAction(async () => {
    const sent = await api.resendDelivery(delivery.id);
    onSent(sent);
    const attempt = sent.attempts.at(-1);
    announce(
      sent.in_flight || !attempt ? 'Sent; the receiver has not answered yet' : `Sent again: ${outcomeWords(attempt)}`,
    );
  });
  return {
    button: (
      <Button
        kind="primary"
        busy={resend.running}
        disabledReason={disabledReason(delivery)}
        onClick={() => void resend.run()}
      >
        <AgainIcon />
        {resend.running ? 'Sending…' : 'Send again'}
      </Button>
    ),
    failure: resend.error && <Failure error={resend.error} />,
  };
}
