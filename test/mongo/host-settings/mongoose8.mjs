import Module, { register } from 'node:module';

/** Where this process asks for mongoose, by `import` or `require`, it gets version 8. */
const inPlaceOf = (name) => (name === 'mongoose' ? 'mongoose8' : name);
const hooks = `const inPlaceOf = ${inPlaceOf};
export const resolve = (name, context, next) => next(inPlaceOf(name), context);`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);

const resolve = Module._resolveFilename;
Module._resolveFilename = (name, ...where) => resolve(inPlaceOf(name), ...where);
