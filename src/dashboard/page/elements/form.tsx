import { type ComponentChildren, createContext, type InputHTMLAttributes } from 'preact';
import { useContext, useId, useLayoutEffect, useRef } from 'preact/hooks';
import { type ApiError, errorOf } from '../data/error.ts';
import { useAction } from '../data/query.ts';
import { useAnnounce } from './announce.tsx';
import { Button } from './button.tsx';
import { CloseIcon } from './icons.tsx';
import { Failure } from './states.tsx';

/** What a control needs to belong to its field. */
interface FieldControl {
  readonly id: string;
  readonly 'aria-describedby': string | undefined;
  readonly 'aria-invalid': true | undefined;
}

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  /** As errors about it name it, in a dialog that is sent to the API. */
  readonly name?: string;
  /** What is wrong with it, where no dialog says that by its name. */
  readonly error?: string | undefined;
  readonly children: (control: FieldControl) => ComponentChildren;
}

/** A control with its label, what helps to fill it in, and what is wrong with it. */
export function Field({ label, hint, name = '', error: given, children }: FieldProps) {
  const id = useId();
  const answered = useFieldError(name);
  const error = given ?? answered;
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': described, 'aria-invalid': error ? true : undefined })}
      {hint && (
        <p class="muted small" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      <FieldError id={`${id}-error`} error={error} />
    </div>
  );
}

const FormError = createContext<ApiError | undefined>(undefined);

/** What the API has answered about one field of the dialog around. */
export function useFieldError(name: string): string | undefined {
  return errorOf(useContext(FormError), name);
}

/** What is wrong with a field; nothing while nothing is. */
export function FieldError({ id, error }: { id?: string; error: string | undefined }) {
  if (!error) return null;
  return (
    <p class="field-error" id={id} role="alert">
      {error}
    </p>
  );
}

interface TextFieldProps extends Omit<FieldProps, 'children'> {
  readonly value: string;
  readonly onText: (text: string) => void;
  /** What else the input is told. */
  readonly input?: InputHTMLAttributes;
}

/** A line of text. */
export function TextField({ value, onText, input, ...field }: TextFieldProps) {
  return (
    <Field {...field}>
      {(control) => (
        <input {...control} {...input} value={value} onInput={({ currentTarget }) => onText(currentTarget.value)} />
      )}
    </Field>
  );
}

/** Of an input for keys, secrets and addresses, which no browser should complete or correct. */
export const verbatim = { class: 'mono', autocomplete: 'off', spellcheck: false } as const;

interface SelectFieldProps<T extends string | number> extends Omit<FieldProps, 'children'> {
  readonly value: T | undefined;
  readonly options: readonly (readonly [value: T, name: string])[];
  readonly onChosen: (value: T) => void;
}

/** One of a few. */
export function SelectField<T extends string | number>({ value, options, onChosen, ...field }: SelectFieldProps<T>) {
  return (
    <Field {...field}>
      {(control) => (
        <select
          {...control}
          value={value}
          onChange={({ currentTarget }) => {
            const chosen = options[currentTarget.selectedIndex];
            if (chosen) onChosen(chosen[0]);
          }}
        >
          {options.map(([option, name]) => (
            <option key={option} value={option}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

interface CheckProps {
  readonly checked: boolean;
  readonly name: string;
  readonly meaning: string;
  readonly onChecked: (checked: boolean) => void;
}

/** Something that is on or off, and what that means. */
export function Check({ checked, name, meaning, onChecked }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={({ currentTarget }) => onChecked(currentTarget.checked)} />
      <span>
        <b>{name}</b>
        <span class="muted small">{meaning}</span>
      </span>
    </label>
  );
}

interface ChecksProps<T extends string> {
  readonly chosen: readonly string[];
  readonly options: readonly { readonly name: T; readonly meaning: string }[];
  readonly onChosen: (names: T[]) => void;
}

/** Any of a few. */
export function Checks<T extends string>({ chosen, options, onChosen }: ChecksProps<T>) {
  const names = options.map(({ name }) => name);
  return (
    <>
      {options.map(({ name, meaning }) => (
        <Check
          key={name}
          name={name}
          meaning={meaning}
          checked={chosen.includes(name)}
          onChecked={(checked) => onChosen(names.filter((one) => (one === name ? checked : chosen.includes(one))))}
        />
      ))}
    </>
  );
}

interface DialogProps {
  readonly title: string;
  readonly children: ComponentChildren;
  /** The buttons at its end. */
  readonly actions: ComponentChildren;
  readonly onClose: () => void;
  /** What Enter does. */
  readonly onSubmit?: () => void;
}

/** The browser's own modal dialog: it keeps the focus inside, Escape closes it, and once closed the focus goes back to what opened it. */
export function Dialog({ title, children, actions, onClose, onSubmit }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const opened = dialog.current;
    opened?.showModal();
    return () => opened?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div class="line spread dialog-head">
        <h2 id={id}>{title}</h2>
        <Button kind="icon" label="Close" onClick={onClose}>
          <CloseIcon />
        </Button>
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit?.();
        }}
      >
        <div class="dialog-body">{children}</div>
        <div class="line end dialog-actions">{actions}</div>
      </form>
    </dialog>
  );
}

interface FormDialogProps extends Pick<DialogProps, 'title' | 'children' | 'onClose'> {
  /** What its button is called. */
  readonly submit: string;
  readonly onSubmit: () => Promise<unknown>;
  /** What is announced when that is done, as the dialog closes; without it, the dialog stays. */
  readonly done?: string;
  /** The fields that show what is wrong with them; any other error stands at the end. */
  readonly fields?: readonly string[];
  readonly disabled?: boolean;
  /** Whether it asks before something is done that cannot be undone. */
  readonly danger?: boolean;
}

/** A form that is sent, or left by its other button. */
export function FormDialog(props: FormDialogProps) {
  const { title, submit, onSubmit, done, fields = [], disabled = false, danger, onClose, children } = props;
  const announce = useAnnounce();
  const { run, running, error } = useAction(async () => {
    await onSubmit();
    if (done === undefined) return;
    announce(done);
    onClose();
  });
  const isShown = fields.some((field) => errorOf(error, field));
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={() => void run()}
      actions={
        <>
          <Button onClick={onClose}>{danger ? 'Keep it' : 'Cancel'}</Button>
          <Button kind={danger ? 'danger' : 'primary'} type="submit" busy={running} disabled={disabled}>
            {submit}
          </Button>
        </>
      }
    >
      <FormError.Provider value={error}>{children}</FormError.Provider>
      {error && !isShown && <Failure error={error} />}
    </Dialog>
  );
}
