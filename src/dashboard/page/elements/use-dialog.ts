import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

/**
 * A dialog, as long as it is open, and what opens it.
 * @param show draws it, for what it has been opened for
 * @param onClose called when it has closed, after a change or without one
 */
export function useDialog<Subject = void>(
  show: (close: () => void, subject: Subject) => ComponentChildren,
  onClose?: () => void,
): [dialog: ComponentChildren, open: (subject: Subject) => void] {
  const [opened, setOpened] = useState<{ readonly subject: Subject }>();
  const close = () => {
    setOpened(undefined);
    onClose?.();
  };
  return [opened && show(close, opened.subject), (subject) => setOpened({ subject })];
}
