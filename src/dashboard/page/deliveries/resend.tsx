import type { DeliveryDetails } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/button.tsx';
import { AgainIcon } from '../elements/icons.tsx';
import { Failure } from '../elements/states.tsx';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';
import { outcomeWords } from './words.ts';

interface Props {
  readonly delivery: DeliveryDetails;
  readonly onSent: (delivery: DeliveryDetails) => void;
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
        disabled={delivery.in_flight || delivery.url === null}
        onClick={() => void resend.run()}
      >
        <AgainIcon />
        {resend.running ? 'Sending…' : 'Send again'}
      </Button>
    ),
    failure: resend.error && <Failure error={resend.error} />,
  };
}
