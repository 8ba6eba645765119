import type { ApiKey } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/inputs/button.tsx';
import { Dialog } from '../elements/inputs/dialog.tsx';
import { Failure } from '../elements/states.tsx';
import { useAnnounce } from '../shell/announce.tsx';

interface Props {
  readonly apiKey: ApiKey;
  readonly revoke: (id: string) => Promise<unknown>;
  readonly onClose: () => void;
}

export function RevokeKey({ apiKey, revoke, onClose }: Props) {
  const announce = useAnnounce();
  const revoking = useAction(async () => {
    await revoke(apiKey.id);
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
          <Button kind="danger" busy={revoking.running} onClick={() => void revoking.run()}>
            Revoke key
          </Button>
        </>
      }
    >
      <p>
        Whatever uses <b>{apiKey.name || apiKey.id}</b> is refused from now on. This cannot be undone.
      </p>
      {revoking.error && <Failure error={revoking.error} />}
    </Dialog>
  );
}
