import { Field } from '../elements/inputs/field.tsx';
import { useSession } from '../session/session.ts';

const expiryChoices = [
  ['0', 'Never'],
  ['1', 'After 1 day'],
  ['30', 'After 30 days'],
  ['365', 'After 1 year'],
] as const;

/** When a new key ends: after so many days, or with the key that makes it. */
export type ExpiryChoice = (typeof expiryChoices)[number][0] | 'own';

const endAfter = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

/** What the API is given for it; nothing for a key without an end. @param sessionExpiry when the session's own key ends */
export function toExpiry(choice: ExpiryChoice, sessionExpiry: string | null): { expires_at?: string } {
  if (choice === 'own') return sessionExpiry === null ? {} : { expires_at: sessionExpiry };
  return choice === '0' ? {} : { expires_at: endAfter(Number(choice)) };
}

/** Offers no end later than that of the session's own key: the API refuses that. */
export function ExpiryField({ value, onInput }: { value: ExpiryChoice; onInput: (choice: ExpiryChoice) => void }) {
  const { expires_at: sessionExpiry } = useSession();
  const offered =
    sessionExpiry === null
      ? expiryChoices
      : expiryChoices.filter(([choice]) => choice !== '0' && endAfter(Number(choice)) <= sessionExpiry);
  return (
    <Field label="Ends">
      {(field) => (
        <select {...field} value={value} onChange={(event) => onInput(event.currentTarget.value as ExpiryChoice)}>
          {sessionExpiry !== null && <option value="own">With your own key</option>}
          {offered.map(([choice, text]) => (
            <option key={choice} value={choice}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
