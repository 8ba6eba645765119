import { useState } from 'preact/hooks';
import type { Delivery } from '../api/types.ts';
import { useAction } from '../data/use-action.ts';
import { AgainIcon } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Failure } from '../elements/states.tsx';
import { counted } from '../format/number.ts';
import { useApi } from '../session/session.ts';
import { useAnnounce } from '../shell/announce.tsx';

/** How many are sent at once. */
const concurrency = 4;

/** Which rows are chosen. */
export interface Selection {
  readonly ids: ReadonlySet<string>;
  set(ids: readonly string[], chosen: boolean): void;
}

export function useSelection(): Selection {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  return {
    ids,
    set: (changed, chosen) =>
      setIds((before) => {
        const next = new Set(before);
        for (const id of changed) chosen ? next.add(id) : next.delete(id);
        return next;
      }),
  };
}

interface Props {
  /** Those on the page. */
  readonly deliveries: readonly Delivery[];
  readonly selection: Selection;
  readonly onSent: () => void;
}

/** Chooses all on the page, and makes one more attempt of each that is chosen. */
export function ResendSelected({ deliveries, selection, onSent }: Props) {
  const api = useApi();
  const announce = useAnnounce();
  const [progress, setProgress] = useState('');
  const ids = deliveries.map(({ id }) => id);
  const chosen = ids.filter((id) => selection.ids.has(id));
  const resend = useAction(async () => {
    const waiting = [...chosen];
    let [sent, delivered] = [0, 0];
    async function sendSome(): Promise<void> {
      for (let id = waiting.shift(); id; id = waiting.shift()) {
        try {
          const { state } = await api.resendDelivery(id);
          sent += 1;
          if (state === 'delivered') delivered += 1;
          selection.set([id], false);
          setProgress(`${sent} of ${chosen.length} sent`);
        } catch (error) {
          // the others are not begun; what is chosen still is what has not been sent
          waiting.length = 0;
          throw error;
        }
      }
    }
    const ended = await Promise.allSettled(Array.from({ length: concurrency }, sendSome));
    setProgress('');
    onSent();
    announce(`${counted(sent, 'delivery', 'deliveries')} sent again, ${delivered} of them delivered`);
    const failure = ended.find(({ status }) => status === 'rejected');
    if (failure?.status === 'rejected') throw failure.reason;
  });
  return (
    <>
      <div class="selection">
        <label class="check">
          <input
            type="checkbox"
            checked={chosen.length === ids.length}
            onChange={({ currentTarget }) => selection.set(ids, currentTarget.checked)}
          />
          Select all on this page
        </label>
        <Button
          busy={resend.running}
          disabledReason={chosen.length === 0 && 'Select deliveries first'}
          onClick={() => void resend.run()}
        >
          <AgainIcon />
          {progress || (chosen.length > 0 ? `Send ${chosen.length} again` : 'Send selected again')}
        </Button>
      </div>
      {resend.error && <Failure error={resend.error} />}
    </>
  );
}
