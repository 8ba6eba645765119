/** A text that repeats a shorter piece is no secret. Characters. */
const shortestPiece = 8;
/** Different characters. */
const minDifferent = 5;
/** Characters that do not follow from the one before them. */
const minUnexpected = 6;

/** Sequences, in both directions; those of the alphabet and of the digits follow from character codes. */
const keyboardRows = ['qwertyuiop', 'qwertzuiop', 'asdfghjkl', 'zxcvbnm', 'yxcvbnm', '1234567890'];

const commonWords = new Set(
  (
    'password passwort passwd passphrase secret secrets secretkey mysecret webhook webhooks webhooksecret changeme ' +
    'changeit letmein welcome administrator default example test testing testtest placeholder iloveyou sunshine ' +
    'princess football baseball monkey dragon master superman trustno qwerty azerty undefined null'
  ).split(' '),
);

function follows(character: string, before: string): boolean {
  const step = (character.codePointAt(0) ?? 0) - (before.codePointAt(0) ?? 0);
  if (Math.abs(step) <= 1) return true;
  return keyboardRows.some((row) => row.includes(before + character) || row.includes(character + before));
}

/** The length of the shortest piece that the text repeats; the last repetition may be incomplete. */
function periodOf(characters: readonly string[]): number {
  for (let period = 1; period <= characters.length / 2; period += 1) {
    if (characters.every((character, i) => i < period || character === characters[i - period])) return period;
  }
  return characters.length;
}

/** Ignores what people put around a word: `Password123!` is `password`. */
function isCommonWord(text: string): boolean {
  return commonWords.has(text.replaceAll(/[^\p{L}]/gu, ''));
}

/**
 * Why a secret is easy to guess, in words that complete "it …"; `undefined` if no rule applies. Anyone who has recorded one
 * delivery can try keys offline, so the first things that people type must not be keys. A leading `whsec_` is ignored. Pure.
 */
export function whyGuessable(secret: string): string | undefined {
  const text = secret.toLowerCase().replace(/^whsec_/, '');
  const characters = [...text];
  const unexpected = characters.filter((character, i) => i === 0 || !follows(character, characters[i - 1] as string));
  if (isCommonWord(text)) return 'is a common word, with or without digits and signs';
  // upper and lower case do not protect a word, but they are information in base64
  const cased = [...secret.replace(/^whsec_/, '')];
  if (new Set(cased).size < minDifferent) return `has fewer than ${minDifferent} different characters`;
  if (periodOf(cased) < Math.min(shortestPiece, cased.length)) return 'is a short text that is repeated';
  if (unexpected.length < minUnexpected) return 'is made of sequences such as 1234, abcd, qwerty or aaaa';
  return undefined;
}
