import type { Webhook } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/inputs/button.tsx';
import { Dialog } from '../elements/inputs/dialog.tsx';
import { Failure } from '../elements/states.tsx';
import { goTo, href } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';

export function DeleteWebhook({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const api = useApi();
  const announce = useAnnounce();
  const remove = useAction(async () => {
    await api.deleteWebhook(webhook.id);
    announce('The webhook has been deleted');
    goTo(href(['webhooks']));
  });
  return (
    <Dialog
      title="Delete the webhook?"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button kind="danger" busy={remove.running} onClick={() => void remove.run()}>
            Delete webhook
          </Button>
        </>
      }
    >
      <p>
        Nothing more is sent to <code class="url">{webhook.url}</code>; deliveries under way end canceled. This cannot
        be undone.
      </p>
      <p class="muted">To stop for a while, pause it instead: then what it misses can be recovered.</p>
      {remove.error && <Failure error={remove.error} />}
    </Dialog>
  );
}
