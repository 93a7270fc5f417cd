// Runs a TypeScript file: node run.cjs FILE ARGUMENTS. The compiler is the one that @temporalio/worker brings.
const { transformFileSync } = require('@swc/core');
const jsc = { parser: { syntax: 'typescript' }, target: 'es2022' };
require.extensions['.ts'] = (module, file) =>
  module._compile(transformFileSync(file, { module: { type: 'commonjs' }, jsc, swcrc: false }).code, file);
require(require('node:path').resolve(process.argv[2]));
