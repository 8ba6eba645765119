import type { ErrorCode } from '../errors.ts';
import type { OperationTable } from '../http/operation.ts';
import type { StoredUsage } from '../options/options.ts';

/** One call about what an upstream keeps. */
export interface CallRow {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below an upstream's base URL. The first parameter is the id of the stored object; a call without one makes an object. */
  readonly path: string;
  /** Whether it ends an object, or changes what is attached to one. @default neither */
  readonly effect?: 'removes' | 'changesMetadata';
  /** Whether it has the upstream do no more than end what it works on, or pause it. @default false */
  readonly onlyEnds?: boolean;
  /** Whether its body may have `items`. @default false */
  readonly takesItems?: boolean;
  /**
   * Which parts of the object its answer shows, by the parameter that names such a part, and in which list of it. Where that is `data`, `after`
   * and `before` name parts, too.
   * @default no list: the answer is the part; no parts, or those of its kind, if its answer is the object
   */
  readonly showsParts?: { readonly param: string; readonly list?: 'output' | 'data' };
  /** Whether its answer is the object, on which its upstream may have ended its work. @default false */
  readonly showsEnd?: boolean;
  /** Whether it lists the account's objects: which they are says the gateway, each is read by this path. @default false */
  readonly lists?: ListRow;
  /** Whether it makes a file, of which an account may have so many, or is a step to one. @default false */
  readonly makesFile?: boolean;
  /** Whether its body is a file, which goes up as it comes and is never held. @default false */
  readonly streamsUp?: boolean;
  /** What a success answers: the bytes of a file, or a text that may be empty. @default JSON */
  readonly answers?: 'file' | 'text';
  /** An object of another kind that its answer brings, and the member that has it, or the answer itself. @default none */
  readonly brings?: { readonly kind: 'file' | 'part' | 'file_batch'; readonly member?: string };
  /** What its upstream has made for the account by what it works on. @default what its kind says, where its answer is the object, or a list of them */
  readonly showsMade?: MadeRow;
  /** The field with the id of the file that it has its upstream work through, which the account pays for when that has ended. @default none */
  readonly runsFile?: 'input_file_id' | 'training_file';
  /** Whether its body has the requests that it has its upstream work through, for which the account pays when that has ended. @default false */
  readonly runsBody?: boolean;
  /** Whether its answer has an address at the upstream, in whose place clients get that of the gateway. @default false */
  readonly showsAddress?: boolean;
  /** Fields with ids of files, beside the keys by which every request names some. @default none */
  readonly namesFiles?: readonly string[];
}

/** Where an answer shows what its upstream has made for an account. */
export interface MadeRow {
  /** Members that have the id of a file, or a list of them. @default none */
  readonly files?: readonly string[];
  /** The purpose of these files. @default none */
  readonly purpose?: string;
  /** Members that have the name of a model. @default none */
  readonly models?: readonly string[];
  /** A list of the answer, whose objects have these members. @default the answer has them itself */
  readonly list?: 'data';
}

/** What is special about the list of a kind. */
interface ListRow {
  /** @default 'asc' */
  readonly order?: 'asc' | 'desc';
  /** The least that clients may ask for. @default 1 */
  readonly leastAsked?: number;
  /** The most that clients may ask for; a page has 100 at most nevertheless. @default 100 */
  readonly mostAsked?: number;
}

/** What is special about a kind of object. */
export interface KindRow {
  /** What errors call it. */
  readonly name: string;
  /** What to do about one that is not known. */
  readonly remedy: string;
  /** The name of the index by which those of an account are listed. @default they are pieces of others, and not listed by themselves */
  readonly index?: string;
  /** A parameter of the query of its list, and the member of a new object that must be equal to it. @default none */
  readonly filter?: string;
  /** The members of a new one that say what it is called, and how large it is in bytes. @default none */
  readonly describedBy?: { readonly name: readonly string[]; readonly bytes?: readonly string[] };
  /**
   * Keys under which a request names some, wherever they stand in it: a text or a list of texts. In lower case, each with `e_id`, `r_id`, `t_id`
   * or `ill_id` in it, or `container`. @default none
   */
  readonly namedBy?: readonly string[];
  /** How a request names one that it continues, or works in: the first of these fields counts, and errors call it `param`. @default not at all */
  readonly continuedBy?: { readonly param: string; readonly fields: readonly string[] };
  /** The member of an event that has the new object. @default the event is the object */
  readonly eventMember?: 'response';
  /** Where one has items, also in the answer that brings a new one. @default nowhere */
  readonly bringsItems?: 'output';
  /** Under which name of `credits.storedPrices` calls about it are charged. @default they are free, and have no usage */
  readonly pricedAs?: StoredUsage['kind'];
  /** Whether upstreams keep it until it is deleted. @default false: it is forgotten after 30 days */
  readonly isKept?: boolean;
  /** Whether a second one, which nobody knows of, takes room or costs something: a call that makes one is sent once. @default false */
  readonly isMadeOnce?: boolean;
  /** Whether several accounts may have ones of the same id. @default false */
  readonly isShared?: boolean;
  /** Of what is known together with the object that it is a part of, and has an id there: the members that name it. @default it is known by its id */
  readonly partNames?: readonly string[];
  /** What its errors are called. @default its own name and `_not_found` */
  readonly notFound?: ErrorCode;
  /** Whether several upstreams may give the same id. @default false: it is unique among everything that they keep */
  readonly isOfUpstream?: boolean;
  /** Whether it stays known that an account has removed one: its id may be shown again. @default false: it is forgotten within the hour */
  readonly staysRemoved?: boolean;
  /** Whether the gateway remembers the metadata of it: lists are filtered by that. @default false */
  readonly hasMetadata?: boolean;
  /** With which `status` its upstream still works on one. @default never */
  readonly runsWhile?: readonly string[];
  /**
   * What its upstreams work on for long, and always: with which status that has ended, in which member (`status` by default), for how long one is asked
   * for at least, in milliseconds, and what is made.
   * @default it is made when the call is answered, or as `runsWhile` says
   */
  readonly work?: {
    readonly ends: readonly string[];
    readonly statusIn?: string;
    readonly followedFor: number;
    readonly makes: MadeRow;
  };
  /** Which calls there are about it, by operationId. */
  readonly calls: { readonly [OperationId in keyof OperationTable]?: CallRow };
}
