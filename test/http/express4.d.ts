/** The alias under which Express 4 is installed for tests; what they use of it is typed as in Express 5. */
declare module 'express4' {
  export { default } from 'express';
}
