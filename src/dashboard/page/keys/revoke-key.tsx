import type { ApiKey } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/button.tsx';
import { Dialog } from '../elements/dialog.tsx';
import { Failure } from '../elements/states.tsx';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';

export function RevokeKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const api = useApi();
  const announce = useAnnounce();
  const revoke = useAction(async () => {
    await api.deleteApiKey(apiKey.id);
    announce('The key has been revoked');
    onClose();
  });
  return (
    <Dialog
      title="Revoke the key?"
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button kind="danger" busy={revoke.running} onClick={() => void revoke.run()}>
            Revoke key
          </Button>
        </>
      }
    >
      <p>
        Whatever uses <b>{apiKey.name || apiKey.id}</b> is refused from now on. This cannot be undone.
      </p>
      {revoke.error && <Failure error={revoke.error} />}
    </Dialog>
  );
}
