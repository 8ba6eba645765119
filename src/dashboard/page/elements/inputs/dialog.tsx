import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { CloseIcon } from '../icons.tsx';

interface Props {
  readonly title: string;
  readonly children: ComponentChildren;
  /** The buttons at its end. */
  readonly actions?: ComponentChildren;
  readonly onClose: () => void;
  /** Makes it a form: what Enter does. */
  readonly onSubmit?: () => void;
}

/** The browser's own modal dialog: it keeps the focus inside, Escape closes it, and the focus goes back to what opened it. */
export function Dialog({ title, children, actions, onClose, onSubmit }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const opener = document.activeElement;
    const opened = dialog.current;
    opened?.showModal();
    return () => {
      // what is behind an open dialog cannot take the focus
      opened?.close();
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);

  const inside = (
    <>
      <div class="dialog-body">{children}</div>
      {actions && <div class="dialog-actions">{actions}</div>}
    </>
  );
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
          <CloseIcon />
        </button>
      </div>
      {onSubmit ? (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          {inside}
        </form>
      ) : (
        inside
      )}
    </dialog>
  );
}
