import { useState } from 'preact/hooks';
import type { Budget } from '../api/types.ts';
import { errorOf, otherError } from '../data/field-errors.ts';
import { useAction } from '../data/use-action.ts';
import { Button } from '../elements/inputs/button.tsx';
import { Dialog } from '../elements/inputs/dialog.tsx';
import { Failure } from '../elements/states.tsx';
import { useAnnounce } from '../shell/announce.tsx';
import { BudgetsField, budgetsFrom, toInputs } from './budgets-field.tsx';

interface Props {
  readonly title: string;
  readonly of: 'key' | 'account';
  readonly budgets: readonly Budget[];
  /** Replaces them all. */
  readonly save: (budgets: Budget[]) => Promise<unknown>;
  readonly onClose: () => void;
}

/** Changes the budgets of a key or an account. What is used of them stays as it is. */
export function EditBudgets({ title, of, budgets, save, onClose }: Props) {
  const announce = useAnnounce();
  const [inputs, setInputs] = useState(() => toInputs(budgets));
  const saving = useAction(async () => {
    await save(budgetsFrom(inputs));
    announce('The budgets have been saved');
    onClose();
  });
  const other = otherError(saving.error, ['budgets']);
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void saving.run()}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={saving.running}>
            Save
          </Button>
        </>
      }
    >
      <BudgetsField value={inputs} error={errorOf(saving.error, 'budgets')} of={of} onInput={setInputs} />
      {other && <Failure error={other} />}
    </Dialog>
  );
}
