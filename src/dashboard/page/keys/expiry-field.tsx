import { Field } from '../elements/field.tsx';
import { useSession } from '../session/session.ts';

const lives = [
  ['0', 'Never'],
  ['1', 'After 1 day'],
  ['30', 'After 30 days'],
  ['365', 'After 1 year'],
] as const;

/** When a new key ends: after so many days, or with the key that makes it. */
export type Life = (typeof lives)[number][0] | 'own';

const endAfter = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

/** What the API is given for it; nothing for a key without an end. @param own when the session's own key ends */
export function toExpiry(life: Life, own: string | null): { expires_at?: string } {
  if (life === 'own') return own === null ? {} : { expires_at: own };
  return life === '0' ? {} : { expires_at: endAfter(Number(life)) };
}

/** Offers no end later than that of the session's own key: the API refuses that. */
export function ExpiryField({ value, onInput }: { value: Life; onInput: (life: Life) => void }) {
  const { expires_at: own } = useSession();
  const offered = own === null ? lives : lives.filter(([life]) => life !== '0' && endAfter(Number(life)) <= own);
  return (
    <Field label="Ends">
      {(field) => (
        <select {...field} value={value} onChange={(event) => onInput(event.currentTarget.value as Life)}>
          {own !== null && <option value="own">With your own key</option>}
          {offered.map(([life, text]) => (
            <option key={life} value={life}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}
