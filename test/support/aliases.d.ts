/** The aliases under which other major versions are installed for tests; what they use of these is typed as in the newest. */
declare module 'express4' {
  export { default } from 'express';
}
declare module 'mongoose8' {
  export { Mongoose } from 'mongoose';
}
