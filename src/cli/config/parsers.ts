import { readFileSync } from 'node:fs';
import { BlockList, isIP } from 'node:net';
import { parseDuration } from './duration.ts';

/** Turns the text of a variable into its value, and says in words what it takes. */
export interface Reader<T> {
  /** Completes the sentence "must be …". */
  readonly allowed: string;
  /** `undefined` when the text is not that. */
  read(text: string): T | undefined;
}

export function wholeNumber(min: number, max: number): Reader<number> {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    read(text) {
      const value = Number(text);
      return /^\d+$/.test(text) && value >= min && value <= max ? value : undefined;
    },
  };
}

/** Credits, to a millionth. */
export function amount(max: number): Reader<number> {
  return {
    allowed: `an amount from 0 to ${max}, such as 2.5`,
    read(text) {
      const value = Number(text);
      return /^\d+(\.\d{1,6})?$/.test(text) && value <= max ? value : undefined;
    },
  };
}

export function oneOf<T extends string>(...values: readonly T[]): Reader<T> {
  return { allowed: `one of ${values.join(', ')}`, read: (text) => values.find((value) => value === text) };
}

/** JSON as it stands in the variable, or in the file that is named there. */
export const jsonObject: Reader<object> = {
  allowed: 'a JSON object, or the path of a file with one',
  read(text) {
    try {
      const value: unknown = JSON.parse(text.trimStart().startsWith('{') ? text : readFileSync(text, 'utf8'));
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
    } catch {
      return undefined;
    }
  },
};

export const yesOrNo: Reader<boolean> = {
  allowed: 'true or false',
  read(text) {
    if (/^(true|1|yes|on)$/i.test(text)) return true;
    return /^(false|0|no|off)$/i.test(text) ? false : undefined;
  },
};

export function textOf(form: RegExp, allowed: string): Reader<string> {
  return { allowed, read: (text) => (form.test(text) ? text : undefined) };
}

export function duration(min: number, max: number, allowed: string): Reader<number> {
  return {
    allowed,
    read(text) {
      const ms = parseDuration(text);
      return ms !== undefined && ms >= min && ms <= max ? ms : undefined;
    },
  };
}

/** Several values with commas between them; every one must be good, and `none` is the empty list. */
export function listOf<T>(one: Reader<T>, most: number, allowed: string): Reader<readonly T[]> {
  return {
    allowed,
    read(text) {
      if (text === 'none') return [];
      const values = text.split(',').map((part) => one.read(part.trim()));
      return values.length <= most && values.every((value) => value !== undefined) ? values : undefined;
    },
  };
}

export const httpUrl: Reader<string> = {
  allowed: 'an http or https URL, /v1 included, such as https://api.openai.com/v1',
  read: (text) => (/^https?:\/\//i.test(text) && URL.canParse(text) ? text : undefined),
};

export const network: Reader<string> = {
  allowed: 'a network such as 10.0.0.0/8',
  read(text) {
    const [address = '', bits = ''] = text.split('/');
    const version = isIP(address);
    if (version === 0 || !/^\d{1,3}$/.test(bits) || text.split('/').length !== 2) return undefined;
    try {
      new BlockList().addSubnet(address, Number(bits), version === 4 ? 'ipv4' : 'ipv6');
      return text;
    } catch {
      return undefined;
    }
  },
};
